//! The places where an operator changes limits, which messages about limits name.

/// The places where an operator changes limits, in words of the embedding program, such as
/// `settings.toml`. In those of single tools, gates and agents, `{}` stands for the name. An empty
/// text names no place: messages then name the limit alone.
#[derive(Debug, PartialEq, Eq)]
pub struct LimitPlaces {
    /// The place of limits on all calls and runs together.
    pub host: &'static str,
    /// The place of limits on one attempt of a tool.
    pub attempt: &'static str,
    /// The place of limits on all calls of a tool together.
    pub tool: &'static str,
    /// The place of limits on one question to a gate.
    pub gate: &'static str,
    /// The place of limits on runs of an agent.
    pub agent: &'static str,
    /// The place of limits on tools of a remote server.
    pub server: &'static str,
    /// The place of the settings of models.
    pub model: &'static str,
    /// The place of limits on stored data.
    pub store: &'static str,
}

/// The subject of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitScope<'a> {
    /// All calls and runs together.
    Host,
    /// One attempt of the tool with this name.
    Attempt(&'a str),
    /// All calls of the tool with this name.
    Tool(&'a str),
    /// One question to the gate with this id.
    Gate(&'a str),
    /// The runs of the agent with this id.
    Agent(&'a str),
    /// The tools of the remote server with this name.
    Server(&'a str),
    /// The settings of models.
    Model,
    /// Stored data.
    Store,
}

impl LimitPlaces {
    /// No places, which is the default.
    pub const NONE: Self =
        Self { host: "", attempt: "", tool: "", gate: "", agent: "", server: "", model: "", store: "" };

    /// Returns the words that follow "raise it" in a message: ` in ` and the place, or nothing.
    #[must_use]
    pub fn of(&self, scope: LimitScope<'_>) -> String {
        let (place, name) = match scope {
            LimitScope::Host => (self.host, ""),
            LimitScope::Attempt(name) => (self.attempt, name),
            LimitScope::Tool(name) => (self.tool, name),
            LimitScope::Gate(id) => (self.gate, id),
            LimitScope::Agent(id) => (self.agent, id),
            LimitScope::Server(name) => (self.server, name),
            LimitScope::Model => (self.model, ""),
            LimitScope::Store => (self.store, ""),
        };
        if place.is_empty() { String::new() } else { format!(" in {}", place.replace("{}", name)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_in_the_words_of_the_program_or_not_at_all() {
        let places = LimitPlaces { host: "the settings", agent: "agents/{}.txt", ..LimitPlaces::NONE };
        assert_eq!(places.of(LimitScope::Host), " in the settings");
        assert_eq!(places.of(LimitScope::Agent("clerk")), " in agents/clerk.txt");
        assert_eq!(places.of(LimitScope::Store), "");
    }
}
