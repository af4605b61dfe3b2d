#![allow(clippy::unwrap_used)]

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(Path::new("tollgate.toml"), text)
}

fn refusal(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn an_empty_file_means_the_defaults() {
    let config = parse("").unwrap();
    assert_eq!(config.tools_dir, Path::new("tools"));
    assert_eq!(config.limits.run.model_turns, 16);
    assert_eq!(config.limits.run.concurrency, 5);
    assert_eq!(config.limits.of_tool("any").call, tollgate_sandbox::Limits::default());
    assert_eq!(config.agents[DEFAULT_AGENT].tools, ["*"]);
    assert_eq!(config.agents[DIRECT_AGENT].tools, ["*"]);
}

#[test]
fn g3_an_agent_without_a_list_has_no_tools_and_direct_lists_all() {
    let config = parse("[agents.writer]\ninstructions = \"Write.\"").unwrap();
    assert!(config.agents["writer"].tools.is_empty());
    assert!(!config.agents.contains_key(DEFAULT_AGENT));
    assert_eq!(config.agents[DIRECT_AGENT].tools, ["*"]);
    let config = parse("[agents.direct]\ntools = [\"word_count\"]").unwrap();
    assert_eq!(config.agents[DIRECT_AGENT].tools, ["word_count"]);
    assert!(config.agents.contains_key(DEFAULT_AGENT));
}

#[test]
fn an_unknown_limit_names_what_is_known_there() {
    let shown = refusal("[tools]\ndir = \"t\"\n\n[limits]\nmemry_bytes = 1\n");
    let mut lines = shown.lines();
    let first = lines.next().unwrap();
    assert!(
        first.starts_with(
            "tollgate.toml:5:1: unknown key `memry_bytes`; did you mean `memory_bytes`? known: "
        ),
        "{first}"
    );
    for known in ["fuel", "memory_bytes", "model_turns", "concurrency", "timeout_ms", "concurrent_calls"] {
        assert!(first.contains(known), "{known} in {first}");
    }
    assert_eq!(lines.next(), Some(" 5 | memry_bytes = 1"));
    assert_eq!(lines.next(), Some("   | ^^^^^^^^^^^"));
}

#[test]
fn an_unknown_key_or_table_names_what_is_known_there() {
    assert_eq!(
        refusal("[tool]\ndir = \"t\"").lines().next().unwrap(),
        "tollgate.toml:1:2: unknown key `tool`; did you mean `tools`? known: tools, limits, model, agents, grants, mcp, gates, permissions, state, secrets, store, serve, trust, registries"
    );
    assert_eq!(
        refusal("[agents.a]\n  tolls = []").lines().next().unwrap(),
        "tollgate.toml:2:3: unknown key `tolls`; did you mean `tools`? known: instructions, description, tools, stop_on_tools, stop_on_texts, model, delegates, offered_as, output, kind, agents, max_rounds, url, token_env, transcript, limits"
    );
    assert_eq!(
        refusal("[grants.a]\nfiles = [{ host = \".\", guest = \"/d\", access = \"write\" }]")
            .lines()
            .next()
            .unwrap(),
        "tollgate.toml:2:47: \"write\" is not known here; did you mean \"read-write\"? known: \"read\", \"read-write\""
    );
}

#[test]
fn an_error_does_not_repeat_a_password() {
    let refused = refusal("[store]\nurl = \"postgresql://db/t\"\npassword = \"hunter2\"");
    assert!(refused.contains("unknown key `password`") && refused.contains(" 3 | password ="), "{refused}");
    assert!(!refused.contains("hunter2"), "{refused}");
}

#[test]
fn what_stands_under_tools_is_the_directory_or_a_tool() {
    assert_eq!(
        refusal("[tools]\ndri = \"t\"").lines().next().unwrap(),
        "tollgate.toml:2:7: unknown key `dri`; did you mean `dir`? known: dir, gates, locked, and a table for each tool"
    );
    assert_eq!(
        refusal("[tools.x]\nlimit = {}").lines().next().unwrap(),
        "tollgate.toml:2:1: unknown key `limit`; did you mean `limits`? known: limits"
    );
}

#[test]
fn a_missing_key_and_a_wrong_type_are_said_in_plain_words() {
    assert_eq!(
        refusal("[grants.a]\nfiles = [{ host = \".\" }]").lines().next().unwrap(),
        "tollgate.toml:2:10: the key `guest` is missing here"
    );
    assert_eq!(
        refusal("[limits]\nfuel = \"much\"").lines().next().unwrap(),
        "tollgate.toml:2:8: invalid type: string \"much\", expected a whole number"
    );
    assert_eq!(
        refusal("[agents.a]\ntools = \"*\"").lines().next().unwrap(),
        "tollgate.toml:2:9: invalid type: string \"*\", expected a list in [ ]"
    );
}

#[test]
fn t5_a_concurrency_of_zero_is_an_error() {
    assert_eq!(
        refusal("[limits]\nconcurrency = 0"),
        "tollgate.toml:2:15: `concurrency` is 0; it must be at least 1\n 2 | concurrency = 0\n   |               ^"
    );
    assert_eq!(parse("[limits]\nconcurrency = 1").unwrap().limits.run.concurrency, 1);
}

#[test]
fn limits_of_a_tool_lie_over_those_of_all_and_under_the_ceiling() {
    let config = parse(
        "[limits]\nfuel = 1000\nmemory_bytes = 2000\ntimeout_ms = 0\n\
         [tools.word_count.limits]\nfuel = 7\ntimeout_ms = 50\n",
    )
    .unwrap();
    let tool = config.limits.of_tool("word_count");
    assert_eq!((tool.call.fuel, tool.call.memory_bytes, tool.timeout_ms), (7, 2000, Some(50)));
    assert_eq!(config.limits.of_tool("other").call.fuel, 1000);
    let other = config.limits.of_tool("other");
    let sources = ["fuel", "memory_bytes", "tables"].map(|limit| (tool.source(limit), other.source(limit)));
    let (all, of_tool, default) = (LimitSource::AllTools, LimitSource::Tool, LimitSource::Default);
    assert_eq!(sources, [(of_tool, all), (all, all), (default, default)]);
    let config =
        parse("[limits]\ntimeout_ms = 15000\n[agents.a.limits]\ntimeout_ms = 15000\n[agents.b]").unwrap();
    let places = ["a", "b", DIRECT_AGENT].map(|id| config.agents[id].timeout_source);
    assert_eq!(places, [LimitSource::Agent, all, all], "also where a value is the default's");
    assert_eq!(parse("").unwrap().agents[DIRECT_AGENT].timeout_source, default);

    let above = "[tools.big.limits]\nmemory_bytes = 2147483648\n";
    assert_eq!(
        refusal(above).lines().next().unwrap(),
        "tollgate.toml:2:16: `memory_bytes` is 2147483648, above the ceiling of 1073741824; lower it, or raise `memory_bytes` in [limits.ceiling]"
    );
    let raised = format!("{above}[limits.ceiling]\nmemory_bytes = 4294967296\n");
    assert_eq!(parse(&raised).unwrap().limits.of_tool("big").call.memory_bytes, 2_147_483_648);
}

#[test]
fn numbers_out_of_range_are_refused_where_they_stand() {
    assert_eq!(
        refusal("[limits]\nmodel_turns = 5000000000").lines().next().unwrap(),
        "tollgate.toml:2:15: `model_turns` is 5000000000; the most that can be set is 4294967295"
    );
    assert_eq!(
        refusal("[limits]\nfuel = -1").lines().next().unwrap(),
        "tollgate.toml:2:8: `fuel` is -1; it must be at least 1"
    );
    assert_eq!(
        refusal("[limits]\nstack_bytes = 4194305").lines().next().unwrap(),
        "tollgate.toml:2:15: `stack_bytes` is 4194305; the most that can be set is 4194304"
    );
    assert_eq!(parse("[limits]\nstack_bytes = 4194304").unwrap().limits.sandbox.stack_bytes, 4 << 20);
}

#[test]
fn an_agent_bounds_its_own_runs_and_nothing_else() {
    let config = parse("[limits]\ntool_calls = 9\n[agents.a.limits]\nmodel_turns = 3").unwrap();
    let limits = &config.agents["a"].limits;
    assert_eq!((limits.model_turns, limits.tool_calls), (3, 9));
    let config = parse("[agents.a]\nstop_on_tools = [\"submit\"]").unwrap();
    assert_eq!(config.agents["a"].limits.stop_on_tools, ["submit"]);
    assert!(refusal("[agents.a]\nstop_on_tools = [\"*\"]").contains("`*` is not a tool name"));
    let config = parse("[agents.a]\nstop_on_texts = [\"GIVE UP\", \" Über \"]\n[agents.b]").unwrap();
    assert_eq!(config.agents["a"].limits.stop_on_texts, ["GIVE UP", " Über "], "letter by letter");
    assert!(config.agents["b"].limits.stop_on_texts.is_empty());
    for empty in ["", " \\n"] {
        let shown = refusal(&format!("[agents.a]\nstop_on_texts = [\"no\", \"{empty}\"]"));
        assert!(
            shown.starts_with("tollgate.toml:2:24: a text without a word ends every run; write "),
            "{shown}"
        );
    }
    assert!(refusal("[agents.a]\nstop_on_texts = \"x\"").contains("expected a list in [ ]"));
    assert!(refusal("[limits]\nstop_on_texts = [\"x\"]").contains("stop_on_texts"));
    assert!(
        refusal("[agents.a.limits]\nfuel = 3").starts_with("tollgate.toml:2:1: unknown key `fuel`; known: ")
    );
    assert!(refusal("[agents.a.limits.ceiling]\nfuel = 3").contains("unknown key `ceiling`"));
}

#[test]
fn an_agent_that_is_made_of_others_has_nothing_that_belongs_to_a_model() {
    let made_of = |key: &str| {
        format!("[agents.a]\n[agents.b]\n{key}\nkind = \"loop\"\nagents = [\"a\"]\nmax_rounds = 2")
    };
    assert!(parse(&made_of("")).is_ok());
    for key in ["tools = [\"*\"]", "model = { provider = \"recorded\", file = \"turns.toml\" }"] {
        let shown = refusal(&made_of(key));
        assert!(shown.contains("has no `tools` and no `model` of its own"), "{shown}");
    }
    for key in ["stop_on_tools", "stop_on_texts"] {
        let shown = refusal(&made_of(&format!("{key} = [\"done\"]")));
        let why = format!("has no model that `{key}` could stop; write it under those in `agents`");
        assert!(shown.starts_with("tollgate.toml:3:18: ") && shown.contains(&why), "{shown}");
    }
}

#[test]
fn grants_are_checked_where_they_are_written() {
    let config = parse(
        "[grants.find-in-files]\nfiles = [{ host = \"docs\", guest = \"/docs\" }]\n\
         state = { read = [\"notes.items\"] }\nactions = [\"add-context\"]\n",
    )
    .unwrap();
    let grants = config.grants_of("find-in-files");
    let file = grants.files().next().unwrap();
    assert_eq!((file.host.as_path(), file.access), (Path::new("docs"), tollgate_sandbox::FileAccess::Read));
    assert!(grants.catalog().reads.contains("notes.items") && grants.catalog().actions.add_context);
    assert_eq!(config.grants_of("other"), ComponentGrants::default());

    for (text, problem) in [
        ("[grants.A_b]\n", "`A_b` is not a component id"),
        ("[grants.a]\nfiles = [{ host = \".\", guest = \"docs\" }]", "begins with /"),
        (
            "[grants.a]\nfiles = [{ host = \".\", guest = \"/d\" }, { host = \"x\", guest = \"/d\" }]",
            "granted twice",
        ),
        (
            "[grants.a]\nfiles = [{ host = \".\", guest = \"/Data\" }, { host = \"x\", guest = \"/data\" }]",
            "differs from \"/Data\" only in case",
        ),
        ("[grants.a]\nstate = { read = [\"host.x\"] }", "is not a component's state key"),
        ("[grants.a]\nactions = [\"grant\"]", "\"grant\" is not an action; known: "),
    ] {
        assert!(refusal(text).contains(problem), "{text}: {}", refusal(text));
    }
}

#[test]
fn paths_begin_at_the_file_that_names_them() {
    let text = "[tools]\ndir = \"t\"\n[grants.a]\nfiles = [{ host = \"d\", guest = \"/d\" }]";
    let config = Config::parse(Path::new("/etc/tollgate/t.toml"), text).unwrap();
    assert_eq!(config.tools_dir, Path::new("/etc/tollgate/t"));
    assert_eq!(config.grants_of("a").files().next().unwrap().host, Path::new("/etc/tollgate/d"));
}

#[test]
fn text_that_is_not_toml_is_refused_with_its_place() {
    let error = parse("[limits]\nfuel = = 3").unwrap_err();
    assert_eq!((error.line(), error.column()), (Some(2), Some(8)));
    let error = parse("ä = \"\u{1b}[31m").unwrap_err();
    assert!(!error.to_string().contains('\u{1b}'), "{error}");
    let error = parse("[agents.a]\ninstructions = '''\nx\n").unwrap_err();
    assert!(error.line().is_some(), "{error}");
}

#[test]
fn a_named_file_must_exist_and_the_usual_one_need_not() {
    let error = Config::load(Some(Path::new("no/such.toml"))).unwrap_err();
    assert!(error.to_string().starts_with("no/such.toml: the configuration cannot be read: "), "{error}");
    assert!(error.is_missing(), "{error}");
}

#[test]
fn powers_are_granted_and_their_mistakes_show_where() {
    let config = parse(
        "[secrets.key]\nfile = \"key\"\nto = \"https://A.test\"\nheader = \"x-key\"\n\
         [grants.fetch]\nhttp = [\"POST https://a.test/v1\"]\naddresses = [\"10.0.0.0/8\"]\nsecrets = [\"key\"]\n\
         settings = { units = \"metric\" }\nenvironment = [\"LANG\"]\n\
         files = [{ host = \"d\", guest = \"/d\", quota_bytes = 7 }]\n",
    )
    .unwrap();
    let granted = config.grants_of("fetch");
    assert_eq!(granted.http().next().unwrap().to_string(), "POST https://a.test/v1");
    assert_eq!(granted.settings().collect::<Vec<_>>(), [("units", "metric")]);
    assert_eq!(granted.addresses().count(), 1);
    assert!(granted.has(GrantKind::Secrets, "key") && granted.has(GrantKind::Environment, "LANG"));
    assert_eq!(granted.files().next().unwrap().quota_bytes, Some(7));
    assert_eq!(config.secrets["key"].to.to_string(), "https://a.test");
    for (text, place, words) in [
        ("[grants.a]\nhttp = [\"a.test\"]", "tollgate.toml:2:9", "write \"https://a.test\""),
        ("[grants.a]\naddresses = [\"10.0.0.1/8\"]", "tollgate.toml:2:14", "\"10.0.0.0/8\""),
        ("[grants.a]\nsecrets = [\"key\"]", "tollgate.toml:2:12", "[secrets.key]"),
        ("[grants.a]\nhtt = []", "tollgate.toml:2:1", "did you mean `http`"),
        ("[grants.a]\nstate = { raed = [] }", "tollgate.toml:2:11", "known: read, write"),
        ("[grants.a]\nenvironment = [\"A=B\"]", "tollgate.toml:2:16", "not the name of a variable"),
        (
            "[grants.a]\nenvironment = [\"K\"]\n[secrets.k]\nenv = \"K\"\nto = \"https://a.test\"\nheader = \"x\"",
            "tollgate.toml:2:16",
            "the variable K holds the secret of [secrets.k], which no tool may see",
        ),
        (
            "[grants.a]\nenvironment = [\"K\"]\n[model]\nprovider = \"openai\"\nmodel = \"m\"\napi_key_env = \"K\"",
            "tollgate.toml:2:16",
            "a model's API key",
        ),
        (
            "[grants.a]\nenvironment = [\"OPENAI_API_KEY\"]\n[agents.b]\nmodel = { provider = \"openai\", model = \"m\" }",
            "tollgate.toml:2:16",
            "a model's API key",
        ),
        ("[secrets.k]\nto = \"https://a.test\"\nheader = \"x\"", "tollgate.toml:1:10", "either `env"),
        (
            "[secrets.k]\nenv = \"K\"\nto = \"https://a.test/x\"\nheader = \"x\"",
            "tollgate.toml:3:6",
            "one host",
        ),
    ] {
        let shown = refusal(text);
        assert!(shown.starts_with(place) && shown.contains(words), "{shown}");
    }
}

#[test]
fn e2_visible_keys_are_keys_or_their_beginnings() {
    let config = parse("[state]\nvisible = [\"notes.*\", \"tally.count\"]").unwrap();
    assert_eq!(config.visible_keys, ["notes.*", "tally.count"]);
    assert!(parse("").unwrap().visible_keys.is_empty());
    for wrong in ["notes", "notes.", "*.items", "notes.*.x", ""] {
        let shown = refusal(&format!("[state]\nvisible = [\"{wrong}\"]"));
        assert!(shown.contains("`notes.*`") && shown.contains(":2:"), "{shown}");
    }
}

#[test]
fn an_agent_of_another_server_has_an_address_and_nothing_of_its_own() {
    let with = |lines: &str| format!("[agents.far]\nkind = \"a2a\"\n{lines}");
    let url = "url = \"https://agents.example.com/a2a/far\"";
    let config = parse(&with(&format!("{url}\ntoken_env = \"T\"\ntranscript = \"whole\""))).unwrap();
    let remote = config.agents["far"].remote.clone().unwrap();
    assert_eq!((remote.token_env.as_deref(), remote.transcript), (Some("T"), true));
    assert!(!parse(&with(url)).unwrap().agents["far"].remote.clone().unwrap().transcript);
    assert!(refusal(&with("")).contains("needs the address"));
    assert!(refusal(&with("url = \"ftp://x\"")).contains("neither http"));
    for line in ["instructions = \"a\"", "tools = [\"*\"]", "output = {}", "agents = []", "max_rounds = 2"] {
        let shown = refusal(&with(&format!("{url}\n{line}")));
        assert!(shown.contains("has no `"), "{line}: {shown}");
    }
    for line in [url, "token_env = \"T\"", "transcript = \"last\""] {
        assert!(refusal(&format!("[agents.near]\n{line}")).contains("belong to an agent with"), "{line}");
    }
    let direct = format!("[agents.direct]\nkind = \"a2a\"\n{url}");
    assert!(refusal(&direct).contains("direct calls runs here"));
}
