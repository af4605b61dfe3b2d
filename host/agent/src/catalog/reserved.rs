//! Reserves names for configured servers, connected or not: the server's own name as an id, all
//! tool names that begin with `SERVER__`, and all tool ids that begin with `SERVER--`. No other
//! owner may use them, in any spelling that looks alike.

use super::{Catalog, Owner, OwnerKind};
use crate::descriptor::{DescriptorError, ToolDescriptor};
use crate::limit_places::LimitScope;
use crate::name;
use std::sync::Arc;

impl Catalog {
    /// Reserves the names of these servers for them. Names that were added earlier stay.
    pub fn reserve_servers<'a>(&mut self, servers: impl IntoIterator<Item = &'a str>) {
        Arc::make_mut(&mut self.servers).extend(servers.into_iter().map(str::to_owned));
    }

    pub(super) fn check_reserved_owner(&self, owner: &Owner) -> Result<(), DescriptorError> {
        let folded = name::fold(&owner.id);
        match self.servers_of_others(owner).find(|server| name::fold(server) == folded) {
            None => Ok(()),
            Some(server) => Err(DescriptorError(format!(
                "the id \"{}\" of {} is reserved for the server {server}, or looks like it; {}",
                owner.id,
                owner.origin,
                self.rename(server)
            ))),
        }
    }

    pub(super) fn check_reserved_tool(
        &self,
        tool: &ToolDescriptor,
        owner: &Owner,
    ) -> Result<(), DescriptorError> {
        for (what, word) in [("name", &tool.name), ("id", &tool.id)] {
            let folded = name::fold(word);
            let server = self
                .servers_of_others(owner)
                .find(|server| folded.starts_with(&name::fold(&name::server_prefix(server))));
            if let Some(server) = server {
                return Err(DescriptorError(format!(
                    "the tool {what} \"{word}\" of {} is reserved for the server {server}, whose tools begin \
                     with \"{}\"; {}",
                    owner.origin,
                    name::server_prefix(server),
                    self.rename(server)
                )));
            }
        }
        Ok(())
    }

    /// Returns the servers other than this owner.
    fn servers_of_others<'a>(&'a self, owner: &'a Owner) -> impl Iterator<Item = &'a str> {
        let is_other = |server: &&String| owner.kind != OwnerKind::Mcp || owner.id != server.as_str();
        self.servers.iter().filter(is_other).map(String::as_str)
    }

    fn rename(&self, server: &str) -> String {
        format!("rename it, or the server{}", self.limit_places().of(LimitScope::Server(server)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::catalog::CatalogGrants;
    use crate::descriptor::ComponentDescriptor;

    fn add(kind: OwnerKind, id: &str, tool: (&str, &str)) -> Result<(), DescriptorError> {
        let mut catalog = Catalog::default();
        catalog.reserve_servers(["files", "my-l0g"]);
        let owner = Owner { id: id.into(), kind, origin: format!("{id}.wasm"), version: "1".into() };
        let descriptor = ComponentDescriptor {
            id: id.to_owned(),
            version: "1".to_owned(),
            tools: vec![ToolDescriptor::new(tool.0, tool.1, ".")],
            state: Vec::new(),
        };
        catalog.add(owner, descriptor, &CatalogGrants::default())
    }

    #[test]
    fn z16_nobody_takes_the_names_of_a_configured_server() {
        for kind in [OwnerKind::Component, OwnerKind::Native, OwnerKind::Agent] {
            for (id, tool) in [
                ("files", ("a", "a")),
                ("f1les", ("a", "a")),
                ("my-log", ("a", "a")),
                ("evil", ("a", "files__read")),
                ("evil", ("a", "Fi1es__read")),
                ("evil", ("a", "FILES-_read")),
                ("evil", ("a", "files--read")),
                ("evil", ("a", "my_log__read")),
                ("evil", ("files--0", "a")),
            ] {
                let why = add(kind, id, tool).unwrap_err().to_string();
                assert!(why.contains("reserved for the server") && why.contains("or the server"), "{why}");
            }
            for (id, tool) in [("files-2", ("a", "a")), ("b", ("a", "files_read")), ("b", ("files", "files"))]
            {
                add(kind, id, tool).unwrap();
            }
        }
    }

    #[test]
    fn z16_a_server_has_its_own_names_and_no_others() {
        add(OwnerKind::Mcp, "files", ("files--0", "files__read")).unwrap();
        assert!(add(OwnerKind::Mcp, "files", ("a", "my-l0g__read")).is_err());
        assert!(add(OwnerKind::Mcp, "my-log", ("a", "a")).is_err());
    }
}
