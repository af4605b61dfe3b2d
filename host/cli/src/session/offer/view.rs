//! An offer as shown to a person or a program. Untrusted text is cleaned and cut.

use super::installed::WHATEVER;
use super::{Differences, Offer};
use crate::render::provenance;
use crate::terminal::Output;
use crate::terminal::output::{BOLD, DIM, GOOD, WAITS};
use crate::terminal::text::{shown_line, shown_marked};
use serde_json::{Value, json};
use tollgate::grants::RequestedGrants;
use tollgate_registry::{Coverage, Verdict};

/// The longest list of imports that is shown, in characters.
const MAX_IMPORTS: usize = 4_000;

impl Offer {
    /// Shows the component for a person to decide about.
    pub(crate) fn show(&self, output: &Output) {
        let Self { descriptor, entry, fetched, .. } = self;
        let (id, version) = (shown_line(&descriptor.id, 64), shown_line(&descriptor.version, 64));
        output.say(&format!("{BOLD}{id}{BOLD:#} {version}"));
        let tag = entry.tag.as_ref().map(|tag| format!(":{}", shown_line(tag, 128))).unwrap_or_default();
        output.say(&format!("  from      {}{tag}", shown_line(&entry.from, 300)));
        output.say(&format!("  digest    {}", entry.manifest.as_ref().unwrap_or(&entry.wasm)));
        self.show_signature(output);
        let covers_component = self.proof().is_some_and(|proof| proof.covers == Coverage::Component);
        let unsigned = if covers_component && entry.manifest.is_some() { " (not signed)" } else { "" };
        if let Some(licence) = &entry.licence {
            let unsigned = if fetched.annotated_licence().is_some() { unsigned } else { "" };
            output.say(&format!("  licence   {}{unsigned}", shown_line(licence, 200)));
        }
        for line in provenance::lines(&fetched.metadata) {
            output.say(&format!("  {line}"));
        }
        for tool in &descriptor.tools {
            let mark = if self.reworded.contains(&tool.name) { "new words: " } else { "" };
            let words = shown_line(&tool.description, 240);
            output.say(&format!("  tool      {mark}{}: \"{words}\"", shown_line(&tool.name, 64)));
        }
        let condition = if self.asks.is_some() {
            "where it asks for that and it is granted"
        } else {
            "where that is granted"
        };
        for need in self.surface.needs().each() {
            output.say(&format!("  can use   {}, {condition}", shown_line(&need, 300)));
        }
        self.show_requests(unsigned, output);
        let imports = if self.imports.is_empty() { "nothing".to_owned() } else { self.imports.join(", ") };
        output.say(&format!("  imports   {}", shown_line(&imports, MAX_IMPORTS)));
        if let Some(differences) =
            self.differences.as_ref().map(Differences::lines).filter(|lines| !lines.is_empty())
        {
            output.say(&format!("{BOLD}differences from the installed version{BOLD:#}"));
            differences.iter().for_each(|line| output.say(line));
        }
        if let Some(why) = &self.older {
            output.say(&format!("  {WAITS}older{WAITS:#}     {why}"));
        }
        if let Verdict::Ask { why, .. } = &self.verdict {
            output.say(&format!("  {WAITS}decide{WAITS:#}    {}", shown_marked(why)));
        }
    }

    fn show_signature(&self, output: &Output) {
        match (self.proof(), &self.verdict) {
            (Some(proof), Verdict::Accepted { vouched: true, .. }) => {
                output.say(&format!(
                    "  signed    {GOOD}{}{GOOD:#}",
                    shown_line(&proof.signed.to_string(), 400)
                ));
            }
            (Some(proof), _) => {
                output.say(&format!("  signed    {}", shown_line(&proof.signed.to_string(), 400)))
            }
            (None, _) => output.say(&format!("  signed    {WAITS}no{WAITS:#}")),
        }
        for line in provenance::ignored(&self.fetched.evidence) {
            output.say(&format!("            {DIM}{line}{DIM:#}"));
        }
    }

    /// Shows the powers that the manifest asks for.
    fn show_requests(&self, unsigned: &str, output: &Output) {
        match &self.asks {
            None => {
                let mark = if self.news.is_empty() { "" } else { "new: " };
                output.say(&format!("  asks to   {mark}{WHATEVER}: it has no manifest{unsigned}"))
            }
            Some(asks) if asks.is_empty() => {
                output.say(&format!("  asks to   do nothing but compute{unsigned}"))
            }
            Some(asks) => {
                for what in asks.each() {
                    let mark = if self.before.is_some() && self.news.contains(&what) { "new: " } else { "" };
                    output.say(&format!("  asks to   {mark}{}{unsigned}", shown_line(&what, 300)));
                }
            }
        }
        // Such as the name of a tool that was approved for another component.
        let asked = self.asks.as_ref().map(RequestedGrants::each).unwrap_or_default();
        for what in self.news.iter().filter(|what| !asked.contains(what) && !what.starts_with(WHATEVER)) {
            output.say(&format!("  new       {}", shown_line(what, 300)));
        }
    }

    /// Returns everything that is shown, for programs.
    pub(crate) fn as_json(&self) -> Value {
        let (decision, why) = match &self.verdict {
            Verdict::Accepted { vouched: true, .. } => ("vouched", None),
            Verdict::Accepted { .. } => ("accepted", None),
            Verdict::Ask { is_held: true, why, .. } => ("held", Some(why)),
            Verdict::Ask { why, .. } => ("ask", Some(why)),
        };
        json!({
            "id": self.entry.id,
            "version": self.descriptor.version,
            "entry": self.entry,
            "before": self.before,
            "changed": self.is_new(),
            "signer": self.proof().map(|proof| proof.signed.to_string()),
            "signature_covers": self.proof().map(|proof| match proof.covers {
                Coverage::Manifest => "manifest",
                Coverage::Component => "component",
            }),
            "verdict": decision,
            "why": why,
            "older": self.older,
            "asks": self.asks,
            "news": self.news,
            "imports": self.imports,
            "reworded": self.reworded,
            "differences": self.differences,
            "metadata": self.fetched.metadata,
            "faults": provenance::faults(&self.fetched.evidence),
        })
    }
}
