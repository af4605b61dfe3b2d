//! The agents: their models, tools, delegates and limits.

use super::failure::Failure;
use super::layout;
use super::nav::{Nav, Section};
use super::text;
use super::viewer::Viewer;
use maud::{Markup, html};
use tollgate::{Agent, Composition, DIRECT_AGENT};

/// The maximum number of bytes of instructions that are shown.
const MAX_INSTRUCTIONS_BYTES: usize = 1_500;

pub(super) async fn list(viewer: Viewer) -> Result<Markup, Failure> {
    let nav = Nav::of(&viewer, Section::Agents).await?;
    let agents: Vec<&Agent> = viewer
        .shared
        .host
        .agents()
        .filter(|agent| {
            agent.spec.view.id != DIRECT_AGENT && viewer.principal.may_use_agent(&agent.spec.view.id)
        })
        .collect();
    let content = html! {
        @if agents.is_empty() { div.card.empty { p { "No agents. The table " code { "[agents.ID]" } " of tollgate.toml describes one." } } }
        div.cards { @for agent in agents { (card(agent, viewer.has(crate::Scope::Use), viewer.has(crate::Scope::Read))) } }
    };
    Ok(layout::page(&nav, "Agents", content))
}

fn card(agent: &Agent, may_use: bool, may_read: bool) -> Markup {
    let (spec, limits) = (&agent.spec, &agent.limits);
    let id = &spec.view.id;
    html! {
        article.card.agent aria-labelledby={ "agent-" (id) } {
            header {
                h2 id={ "agent-" (id) } { (text::line(id, 64)) }
                div.aside {
                    a href=(text::href("/console/runs", &[("agent", id)])) { "Runs" span.hidden { " of " (id) } }
                    @if may_use { a.button href=(text::href("/console/playground", &[("agent", id)])) { "Try" span.hidden { " " (id) } } }
                }
            }
            @if let Some(description) = &spec.view.description { p { (text::lines(description, 600)) } }
            dl.facts {
                dt { "Model" } dd { @match &agent.made_of {
                    Some(composition) => (made_of(composition)),
                    None => (text::line(agent.model.as_ref().map_or("none", |model| model.name()), 80)),
                } }
                dt { "Tools" } dd { @if spec.tools.is_empty() { "none" } @for tool in spec.tools.iter().take(30) {
                    @if tool == "*" { "all" } @else { a.tag href={ "/console/tools/" (layout::segment(tool)) } { (text::line(tool, 64)) } } " "
                } }
                @if !spec.view.delegates.is_empty() { dt { "Hands over to" } dd { (text::line(&spec.view.delegates.join(", "), 300)) } }
                @if let Some(name) = &agent.offered_as { dt { "Offered as" } dd { code { (text::line(name, 64)) } } }
                @if spec.output.is_some() { dt { "Answers with" } dd { "JSON of a schema" } }
                dt { "Limits" } dd {
                    (text::count(u64::from(limits.model_turns), "turn")) ", " (text::count(u64::from(limits.tool_calls), "call")) ", "
                    @if let Some(tokens) = limits.tokens { (text::amount(tokens)) " tokens, " }
                    (text::span(limits.wall_ms))
                }
            }
            @if may_read && !spec.instructions.trim().is_empty() {
                details { summary { "Instructions" } p.text { (text::lines(&spec.instructions, MAX_INSTRUCTIONS_BYTES)) } }
            }
        }
    }
}

fn made_of(composition: &Composition) -> Markup {
    let how = match composition {
        Composition::Sequential(_) => "in sequence: ",
        Composition::Parallel(_) => "in parallel: ",
        Composition::Loop { .. } => "in a loop: ",
    };
    html! { "none; runs other agents " (how) (text::line(&composition.agents().join(" → "), 300)) }
}
