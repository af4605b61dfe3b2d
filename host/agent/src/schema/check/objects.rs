//! Checks the keywords about objects.

use super::{Answer, Check, EvaluatedParts, LocatedPart, Place, mark_seen, quiet};
use crate::schema::meter::{Stop, as_u64};
use crate::schema::node::{Keyword, Node, NodeId, Properties};
use crate::schema::report;
use serde_json::{Map, Value};

impl<'s> Check<'s> {
    pub(super) fn of_object(
        &mut self,
        keyword: &'s Keyword,
        members: &Map<String, Value>,
        at: LocatedPart<'_>,
        seen: Option<&mut EvaluatedParts>,
    ) -> Answer {
        match keyword {
            Keyword::Members(least, most) => {
                let words = ("has less than", "has more than");
                self.counted(as_u64(members.len()), (*least, *most), at, words, ("property", "properties"))
            }
            Keyword::Required(names) => self.required(names, members, at),
            Keyword::DependentRequired(all) => {
                let mut fits = true;
                for (name, needs) in all {
                    if self.member(members, name)?.is_some() {
                        fits &= self.required(needs, members, at)?;
                    }
                }
                Ok(fits)
            }
            Keyword::Properties(properties) => self.properties(properties, members, at, seen),
            Keyword::Names(node) => self.names(*node, members, at),
            Keyword::DependentSchemas(all) => {
                let (mut fits, mut seen) = (true, seen);
                for (name, node) in all {
                    if self.member(members, name)?.is_some() {
                        fits &= self.apply(*node, at, seen.as_deref_mut())?;
                    }
                }
                Ok(fits)
            }
            Keyword::UnevaluatedMembers(rest) => self.unseen_members(*rest, members, at, seen),
            other => self.of_scalar(other, at),
        }
    }

    /// Returns the member of this name. The lookup costs steps in proportion to the length of the
    /// name.
    fn member<'v>(&mut self, members: &'v Map<String, Value>, name: &str) -> Result<Option<&'v Value>, Stop> {
        self.meter.step()?;
        self.meter.bytes(name.len())?;
        Ok(members.get(name))
    }

    fn required(&mut self, names: &[Box<str>], members: &Map<String, Value>, at: LocatedPart<'_>) -> Answer {
        let mut fits = true;
        for name in names {
            if self.member(members, name)?.is_none() {
                fits = self.fail(at, || {
                    let name = Value::from(report::beginning(name));
                    format!("{name} is a required property")
                })?;
                if !at.collects {
                    break;
                }
            }
        }
        Ok(fits)
    }

    fn properties(
        &mut self,
        properties: &'s Properties,
        members: &Map<String, Value>,
        at: LocatedPart<'_>,
        mut seen: Option<&mut EvaluatedParts>,
    ) -> Answer {
        let Properties { named, patterns, additional } = properties;
        let mut fits = true;
        if seen.is_none() && patterns.is_empty() && additional.is_none() && named.len() < members.len() {
            for (name, node) in named {
                if let Some(value) = self.member(members, name)? {
                    fits &= self.member_fits(*node, name, value, at)?;
                    if !fits && !at.collects {
                        break;
                    }
                }
            }
            return Ok(fits);
        }
        let (mut unexpected, mut unexpected_names) = (0, Vec::new());
        for (index, (name, value)) in members.iter().enumerate() {
            self.meter.step()?;
            self.meter.bytes(name.len())?;
            let own = named.get(name.as_str());
            let mut is_known = own.is_some();
            if let Some(own) = own {
                fits &= self.member_fits(*own, name, value, at)?;
            }
            for (pattern, node) in patterns {
                if self.matches(pattern, name)? {
                    is_known = true;
                    fits &= self.member_fits(*node, name, value, at)?;
                }
            }
            match additional {
                Some(rest) if !is_known => {
                    is_known = true;
                    if matches!(self.nodes[*rest], Node::Nothing) {
                        unexpected += 1;
                        if report::has_room(&unexpected_names) {
                            unexpected_names.push(name.as_str());
                        }
                    } else {
                        fits &= self.member_fits(*rest, name, value, at)?;
                    }
                }
                _ => {}
            }
            if is_known {
                mark_seen(&mut seen, index);
            }
            if !at.collects && (!fits || unexpected > 0) {
                return Ok(false);
            }
        }
        let none = self.holds(unexpected == 0, at, || {
            report::unexpected("Additional properties", &unexpected_names, unexpected)
        })?;
        Ok(fits && none)
    }

    fn member_fits(&mut self, node: NodeId, name: &str, value: &Value, at: LocatedPart<'_>) -> Answer {
        let place = Place::Member(at.place, name);
        self.apply(node, LocatedPart { value, place: &place, ..at }, None)
    }

    fn names(&mut self, node: NodeId, members: &Map<String, Value>, at: LocatedPart<'_>) -> Answer {
        let mut fits = true;
        for name in members.keys() {
            self.meter.bytes(name.len())?;
            let name = Value::from(name.as_str());
            fits &= self.apply(node, LocatedPart { value: &name, ..at }, None)?;
            if !fits && !at.collects {
                break;
            }
        }
        Ok(fits)
    }

    fn unseen_members(
        &mut self,
        rest: NodeId,
        members: &Map<String, Value>,
        at: LocatedPart<'_>,
        mut seen: Option<&mut EvaluatedParts>,
    ) -> Answer {
        let (mut unexpected, mut names) = (0, Vec::new());
        for (index, (name, value)) in members.iter().enumerate() {
            if seen.as_ref().is_some_and(|seen| seen[index]) {
                continue;
            }
            mark_seen(&mut seen, index);
            if !self.apply(rest, quiet(value), None)? {
                unexpected += 1;
                if report::has_room(&names) {
                    names.push(name.as_str());
                }
                if !at.collects {
                    return Ok(false);
                }
            }
        }
        self.holds(unexpected == 0, at, || report::unexpected("Unevaluated properties", &names, unexpected))
    }
}
