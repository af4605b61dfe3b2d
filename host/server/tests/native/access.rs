//! Keys, scopes, sessions, and the checks of names and origins.

use crate::fixture::{Key, PATIENCE, Setup, TestServer, answer};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tollgate::config::ServeConfig;
use tollgate::store::AuditFilter;
use tollgate_server::access::KeyRequest;
use tollgate_server::{Principal, Scope};

#[tokio::test(flavor = "multi_thread")]
async fn access_is_never_anonymous() {
    let server = TestServer::start().await;
    for path in
        ["/api/v1/me", "/api/v1/tools", "/openapi.json", "/metrics", "/nowhere", "/problems/not_found"]
    {
        let response = server.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(response.headers()["connection"], "close");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        assert!(response.headers().contains_key("www-authenticate"));
    }
    let health = server.request(Method::GET, "/healthz").send().await.unwrap();
    assert_eq!((health.status(), health.text().await.unwrap().as_str()), (StatusCode::OK, "ok\n"));
    let ready = server.request(Method::GET, "/readyz").send().await.unwrap();
    assert_eq!((ready.status(), ready.text().await.unwrap().as_str()), (StatusCode::OK, "ok\n"));
}

const INVALID_KEY: &str =
    "the key of this request is unknown, expired or revoked; `tollgate keys add NAME` makes another";

#[tokio::test(flavor = "multi_thread")]
async fn guessed_keys_are_refused() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Scope::Use]);
    let (id, secret) = (&key.id, &key.secret);
    let truncated = &secret[..secret.len() - 1];
    let changed = format!("{truncated}{}", if secret.ends_with('0') { '1' } else { '0' });
    let guesses = [String::new(), "x".repeat(50_000), format!("tg_{id}_"), truncated.to_owned(), changed];
    for guess in &guesses {
        let response = server.request(Method::GET, "/api/v1/me").bearer_auth(guess).send().await.unwrap();
        assert!(response.status().is_client_error(), "{}", guess.len());
        assert_ne!(response.status(), StatusCode::FORBIDDEN);
    }
    let (status, problem) =
        server.get(&Key { id: id.clone(), secret: truncated.to_owned() }, "/api/v1/me").await;
    assert_eq!((status, &problem["detail"]), (StatusCode::UNAUTHORIZED, &json!(INVALID_KEY)));
    let (_, problem) = answer(server.request(Method::GET, "/api/v1/me").send().await.unwrap()).await;
    assert!(problem["detail"].as_str().unwrap().starts_with("send a key as"), "{problem}");
    // The key counts in the header only, and only once.
    let path = format!("/api/v1/me?key={secret}&access_token={secret}");
    let (status, _) = answer(server.request(Method::GET, &path).send().await.unwrap()).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let twice = server.request(Method::GET, "/api/v1/me").bearer_auth(secret).bearer_auth(secret);
    assert_eq!(twice.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    let (status, me) = server.get(&key, "/api/v1/me").await;
    assert_eq!((status, &me["principal"], &me["scopes"]), (StatusCode::OK, &json!("ada"), &json!(["use"])));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_expire_and_are_revoked_at_once() {
    let server = TestServer::start().await;
    let principal = Principal::new("ada", [Scope::Use]);
    let request = KeyRequest { principal: principal.clone(), expires_at_ms: Some(1) };
    let (id, secret) = server.state.access.add_key(&request).unwrap();
    let (status, expired) = server.get(&Key { id, secret }, "/api/v1/me").await;
    assert_eq!((status, &expired["detail"]), (StatusCode::UNAUTHORIZED, &json!(INVALID_KEY)));
    let key = server.key_of(principal);
    assert_eq!(server.get(&key, "/api/v1/me").await.0, StatusCode::OK);
    // Another process of the same data directory revokes it.
    let path = server.state.access.directory().to_owned();
    let other = tollgate_server::AccessDatabase::open(&path).unwrap();
    assert!(other.revoke_key(&key.id).unwrap());
    let (status, revoked) = server.get(&key, "/api/v1/me").await;
    assert_eq!((status, revoked), (StatusCode::UNAUTHORIZED, expired));
    assert!(!other.revoke_key(&key.id).unwrap());
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path.join("tollgate.access.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let stored = std::fs::read(path.join("tollgate.access.db")).unwrap();
    let log = std::fs::read(path.join("tollgate.access.db-wal")).unwrap_or_default();
    for bytes in [stored, log] {
        let secret = key.secret.as_bytes();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret), "the key is stored nowhere");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_bound_to_its_agents_and_tools() {
    let server = TestServer::start().await;
    let key = server.key_of(Principal {
        agents: vec!["oth*".to_owned()],
        tools: vec!["echo".to_owned()],
        ..Principal::new("ada", [Scope::Use])
    });
    let (_, tools) = server.get(&key, "/api/v1/tools").await;
    assert_eq!(tools["items"].as_array().unwrap().len(), 1);
    let (_, agents) = server.get(&key, "/api/v1/agents").await;
    assert_eq!(agents["items"][0]["id"], "other");
    assert_eq!(agents["items"].as_array().unwrap().len(), 1);
    let (status, problem) = server.post(&key, "/api/v1/tools/count/calls", json!({})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::NOT_FOUND, &json!("not_found")));
    assert_eq!(server.post(&key, "/api/v1/tools/echo/calls", json!({})).await.0, StatusCode::OK);
    let run = json!({"agent": "default", "input": "Hello"});
    let (status, problem) = server.post(&key, "/api/v1/runs", run).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    // The problem names no agent that the key may not use.
    let (_, unknown) = server.post(&key, "/api/v1/runs", json!({"agent": "othr", "input": "Hello"})).await;
    assert_eq!((&unknown["nearest"], &unknown["code"]), (&json!(["other"]), &json!("not_found")));
    for problem in [problem, unknown] {
        assert!(
            !problem.to_string().contains("default") && !problem.to_string().contains("busy"),
            "{problem}"
        );
    }
}

/// A message to the thread of a run that waits, or an answer, lets its agent continue.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_does_not_continue_runs_of_agents_that_it_may_not_use() {
    let server = TestServer::start().await;
    let scopes = [Scope::Use, Scope::Decide];
    let (all, bound) = (
        server.key("ada", &scopes),
        server.key_of(Principal { agents: vec!["other".to_owned()], ..Principal::new("ada", scopes) }),
    );
    let run = json!({"agent": "default", "input": "call ask", "thread_id": "t"});
    let (status, waiting) = server.post(&all, "/api/v1/runs", run).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{waiting}");
    let message = json!({"agent": "other", "input": "Hello", "thread_id": "t"});
    assert_eq!(server.post(&bound, "/api/v1/runs", message).await.0, StatusCode::NOT_FOUND);
    let path = waiting["questions"][0]["answer_path"].as_str().unwrap();
    let yes = json!({"answer": {"resume": true}});
    assert_eq!(server.post(&bound, path, yes.clone()).await.0, StatusCode::NOT_FOUND);
    let (_, seen) = server.get(&bound, "/api/v1/questions").await;
    assert_eq!(seen["items"][0]["may_decide"], json!(false));
    assert_eq!(server.post(&all, path, yes).await.0, StatusCode::ACCEPTED);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_origins_are_checked() {
    let config = ServeConfig {
        hosts: vec!["agents.example".to_owned()],
        origins: vec!["https://app.example".to_owned()],
        ..ServeConfig::default()
    };
    let server = TestServer::with(Setup { config, ..Setup::default() }).await;
    let key = server.key("ada", &[Scope::Use]);
    let ask = |host: &'static str, origin: Option<&'static str>| {
        let request = server.request(Method::GET, "/api/v1/me").bearer_auth(&key.secret).header("host", host);
        match origin {
            Some(origin) => request.header("origin", origin),
            None => request,
        }
    };
    for (host, origin, expected) in [
        ("localhost", None, 200),
        ("agents.example:7300", None, 200),
        ("agents.example", Some("http://agents.example"), 200),
        ("agents.example", Some("https://app.example"), 200),
        ("evil.example", None, 421),
        ("localhost.evil.example", None, 421),
        ("localhost", Some("https://evil.example"), 403),
        ("localhost", Some("null"), 403),
        ("localhost", Some("https://app.example.evil"), 403),
    ] {
        let response = ask(host, origin).send().await.unwrap();
        assert_eq!(response.status(), expected, "{host} {origin:?}");
        let allowed = response.headers().get("access-control-allow-origin");
        assert_eq!(allowed.is_some(), origin == Some("https://app.example"), "{origin:?}");
    }
    let preflight = server
        .request(Method::OPTIONS, "/api/v1/runs")
        .header("origin", "https://app.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,a2a-version,x-stainless-os,x-chat-id")
        .send()
        .await
        .unwrap();
    assert_eq!(preflight.status(), StatusCode::OK);
    assert_eq!(preflight.headers()["access-control-allow-origin"], "https://app.example");
    assert_eq!(
        preflight.headers()["access-control-allow-headers"],
        "authorization,a2a-version,x-stainless-os,x-chat-id"
    );
    let answer = ask("localhost", Some("https://app.example")).send().await.unwrap();
    let readable = answer.headers()["access-control-expose-headers"].to_str().unwrap();
    for name in ["tollgate-ignored", "x-should-retry", "retry-after", "mcp-session-id"] {
        assert!(readable.split(',').any(|readable| readable == name), "{name}: {readable}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_without_a_session_signs_in_and_comes_back() {
    let server = TestServer::start().await;
    let browser = |method: Method, path: &str| {
        server.request(method, path).header("accept", "text/html").header("origin", &server.url)
    };
    let location = |response: &reqwest::Response| response.headers()["location"].to_str().unwrap().to_owned();
    for path in ["/", "/console/"] {
        let response = browser(Method::GET, path).send().await.unwrap();
        assert_eq!((response.status(), location(&response).as_str()), (StatusCode::SEE_OTHER, "/console"));
    }
    let response = browser(Method::GET, "/console/runs?status=failed").send().await.unwrap();
    let sign_in = location(&response);
    assert_eq!(sign_in, "/sign-in?next=%2Fconsole%2Fruns%3Fstatus%3Dfailed");
    let page = browser(Method::GET, &sign_in).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("name=\"next\" value=\"/console/runs?status=failed\""), "{page}");

    // A form of an ended session is not sent, and its page leads back.
    let form = browser(Method::POST, "/console/playground")
        .header("referer", format!("{}/console/playground?agent=a", server.url));
    let response = form.body("message=Hello").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    let page = response.text().await.unwrap();
    assert!(
        page.contains("Your session has ended")
            && page.contains("/sign-in?next=%2Fconsole%2Fplayground%3Fagent%3Da"),
        "{page}"
    );
    let response = browser(Method::POST, "/sign-out").send().await.unwrap();
    assert_eq!((response.status(), location(&response).as_str()), (StatusCode::SEE_OTHER, "/sign-in"));

    let sign_in = |code: &str, next: &str| {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        let form = form.append_pair("code", code).append_pair("next", next).finish();
        browser(Method::POST, "/sign-in")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form)
    };
    for (next, leads_to) in [
        ("/console/runs?status=failed", "/console/runs?status=failed"),
        ("", "/console"),
        ("//evil.example", "/console"),
        ("https://evil.example", "/console"),
        ("/consoles", "/console"),
        ("/console\r\nSet-Cookie: a=b", "/console"),
    ] {
        let code = server.state.access.add_code(&Principal::new("ada", [Scope::Use])).unwrap();
        let again = sign_in("WRONG", next).send().await.unwrap().text().await.unwrap();
        assert_eq!(
            again.contains("value=\"/console/runs?status=failed\""),
            next.contains("failed"),
            "{again}"
        );
        let response = sign_in(&code, next).send().await.unwrap();
        assert_eq!((response.status(), location(&response).as_str()), (StatusCode::SEE_OTHER, leads_to));
    }
}

/// Signs in and returns the cookie.
async fn sign_in(server: &TestServer, code: &str, before: Option<&str>) -> Option<String> {
    let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0";
    let request =
        server.request(Method::POST, "/sign-in").json(&json!({"code": code})).header("user-agent", agent);
    let request = match before {
        Some(cookie) => request.header("cookie", cookie),
        None => request,
    };
    let response = request.send().await.unwrap();
    let cookie = response.headers().get("set-cookie")?.to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    Some(cookie.split(';').next().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_works_once_and_a_cookie_needs_a_page_of_this_server() {
    let server = TestServer::start().await;
    let ada = Principal::new("ada", [Scope::Use]);
    let code = server.state.access.add_code(&ada).unwrap();
    assert!(sign_in(&server, "WRONG", None).await.is_none());
    let cookie = sign_in(&server, &code, None).await.unwrap();
    assert!(sign_in(&server, &code, None).await.is_none(), "a code works once");
    let get = server.request(Method::GET, "/api/v1/me").header("cookie", &cookie);
    assert_eq!(answer(get.send().await.unwrap()).await.1["principal"], "ada");
    let page = server.request(Method::GET, "/console/access").header("cookie", &cookie);
    let page = page.send().await.unwrap().text().await.unwrap();
    assert!(page.contains("Firefox 145 on Linux") && !page.contains("Mozilla"), "{page}");
    // A cookie counts for the console and the native API only.
    let metrics = server.request(Method::GET, "/metrics").header("cookie", &cookie);
    assert_eq!(metrics.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    let call = |origin: Option<String>, site: Option<&str>| {
        let request = server
            .request(Method::POST, "/api/v1/tools/echo/calls")
            .header("cookie", &cookie)
            .json(&json!({}));
        let request = match origin {
            Some(origin) => request.header("origin", origin),
            None => request,
        };
        match site {
            Some(site) => request.header("sec-fetch-site", site),
            None => request,
        }
    };
    let own = server.url.clone();
    for (origin, site, expected) in [
        (Some(own.clone()), Some("same-origin"), 200),
        (Some(own.clone()), None, 200),
        (None, Some("same-origin"), 200),
        (None, None, 403),
        (None, Some("cross-site"), 403),
        (None, Some("same-site"), 403),
        (Some(own), Some("cross-site"), 403),
        (Some("https://evil.example".to_owned()), None, 403),
        (Some("null".to_owned()), None, 403),
    ] {
        let response = call(origin.clone(), site).send().await.unwrap();
        assert_eq!(response.status(), expected, "{origin:?} {site:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planted_session_does_not_survive_signing_in() {
    let server = TestServer::start().await;
    let (eve, ada) = (Principal::new("eve", [Scope::Use]), Principal::new("ada", [Scope::Use]));
    let planted = sign_in(&server, &server.state.access.add_code(&eve).unwrap(), None).await.unwrap();
    let code = server.state.access.add_code(&ada).unwrap();
    let cookie = sign_in(&server, &code, Some(&planted)).await.unwrap();
    assert_ne!(cookie, planted, "a session gets a new cookie");
    let me = |cookie: &str| server.request(Method::GET, "/api/v1/me").header("cookie", cookie).send();
    assert_eq!(me(&planted).await.unwrap().status(), StatusCode::UNAUTHORIZED);
    assert_eq!(me(&cookie).await.unwrap().status(), StatusCode::OK);
    assert_eq!(me(&format!("{planted}; {cookie}")).await.unwrap().status(), StatusCode::UNAUTHORIZED);
    let out =
        server.request(Method::POST, "/sign-out").header("cookie", &cookie).header("origin", &server.url);
    assert_eq!(out.send().await.unwrap().status(), StatusCode::SEE_OTHER);
    assert_eq!(me(&cookie).await.unwrap().status(), StatusCode::UNAUTHORIZED);
    // Each of these leaves a record, newest first.
    let desk = server.key("desk", &[Scope::Read, Scope::Operate]);
    let session = sign_in(&server, &server.state.access.add_code(&ada).unwrap(), None).await.unwrap();
    let (_, sessions) = server.get(&desk, "/api/v1/sessions").await;
    let end = format!("/api/v1/sessions/{}", sessions["items"][0]["id"].as_str().unwrap());
    let ended = server.request(Method::DELETE, &end).bearer_auth(&desk.secret).send().await.unwrap();
    assert_eq!(ended.status(), StatusCode::NO_CONTENT);
    assert_eq!(me(&session).await.unwrap().status(), StatusCode::UNAUTHORIZED);
    let (_, audit) = server.get(&desk, "/api/v1/audit?kind=sign_in").await;
    let word = |record: &Value, member: &str| record[member].as_str().unwrap().to_owned();
    let found = audit["items"].as_array().unwrap().iter();
    let found: Vec<_> = found.map(|one| format!("{} {}", word(one, "who"), word(one, "decision"))).collect();
    assert_eq!(
        found,
        [
            "person desk session_ended",
            "person ada signed_in",
            "person ada session_ended",
            "person ada signed_in",
            "person ada session_ended",
            "person eve signed_in",
        ]
    );
    assert!(!audit.to_string().contains(session.split_once('=').unwrap().1), "no secret is in the audit");
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_cookies_are_secure_and_origins_use_https() {
    let config = ServeConfig { hosts: vec!["agents.example".to_owned()], ..ServeConfig::default() };
    let proxy = Some("10.0.0.2".parse().unwrap());
    let server = TestServer::with(Setup { config, behind_proxy: proxy, ..Setup::default() }).await;
    let ada = Principal::new("ada", [Scope::Use]);
    let sign_in = async |origin: &str| {
        let request = server.request(Method::POST, "/sign-in").header("host", "agents.example");
        let code = server.state.access.add_code(&ada).unwrap();
        request.header("origin", origin).json(&json!({"code": code})).send().await.unwrap()
    };
    for foreign in ["http://agents.example", "https://evil.example"] {
        assert_eq!(sign_in(foreign).await.status(), StatusCode::FORBIDDEN, "{foreign}");
    }
    let signed_in = sign_in("https://agents.example").await;
    assert_eq!(signed_in.status(), StatusCode::OK);
    let header = |name: &str| signed_in.headers()[name].to_str().unwrap().to_owned();
    let cookie = header("set-cookie");
    assert!(cookie.starts_with("__Host-tollgate=") && cookie.contains("; Secure"), "{cookie}");
    assert!(cookie.contains("; Path=/") && !cookie.contains("Domain"), "{cookie}");
    assert!(header("strict-transport-security").contains("max-age="));
    let cookie = cookie.split(';').next().unwrap();
    let me = async |host: &str, forwarded: &str| {
        let me = server.request(Method::GET, "/api/v1/me").header("host", host).header("cookie", cookie);
        let me = me.header("forwarded", format!("for=10.0.0.2;host={forwarded};proto=https"));
        let me = me.header("x-forwarded-host", forwarded).header("x-forwarded-for", "10.0.0.2");
        answer(me.send().await.unwrap()).await.1
    };
    assert_eq!(me("agents.example", "evil.example").await["principal"], "ada");
    assert_eq!(me("evil.example", "agents.example").await["code"], "wrong_host");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_the_key_that_began_it() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Scope::Use]);
    let cookie = sign_in(&server, &key.secret, None).await.unwrap();
    let me = || server.request(Method::GET, "/api/v1/me").header("cookie", &cookie).send();
    assert_eq!(me().await.unwrap().status(), StatusCode::OK);
    // A cookie is not a key.
    let secret = cookie.split('=').nth(1).unwrap().to_owned();
    let (status, _) = server.get(&Key { id: String::new(), secret }, "/api/v1/me").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    server.state.access.revoke_key(&key.id).unwrap();
    assert_eq!(me().await.unwrap().status(), StatusCode::UNAUTHORIZED);
}

/// Each sign-in adds records to the audit, which no quota counts.
#[tokio::test(flavor = "multi_thread")]
async fn sign_ins_of_one_principal_are_slowed_down() {
    let server = TestServer::start().await;
    let (ada, bob) = (Principal::new("ada", [Scope::Use]), server.key("bob", &[Scope::Use]));
    let keys = [server.key_of(ada.clone()), server.key_of(ada.clone())];
    let sign_in = async |secret: &str| {
        server.request(Method::POST, "/sign-in").json(&json!({"code": secret})).send().await.unwrap()
    };
    let started = Instant::now();
    let all = futures::future::join_all((0..100).map(|at| sign_in(&keys[at % 2].secret))).await;
    let refused: Vec<_> = all.iter().filter(|response| response.status() != StatusCode::OK).collect();
    assert!(!refused.is_empty());
    for response in &refused {
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()["retry-after"], "1");
    }
    let began =
        server.state.store().audit(AuditFilter { limit: 1_000, ..AuditFilter::default() }).await.unwrap();
    let began = began.iter().filter(|record| record.decision == "signed_in").count();
    assert_eq!(began, 100 - refused.len());
    assert!(began as u64 <= 61 + started.elapsed().as_secs(), "{began} sessions began");
    let code = server.state.access.add_code(&ada).unwrap();
    for secret in [&bob.secret, &code] {
        assert_eq!(sign_in(secret).await.status(), StatusCode::OK);
    }
    let again = async {
        while sign_in(&keys[0].secret).await.status() != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("it may sign in again");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_take_no_places_from_those_who_sign_in() {
    use tokio::io::AsyncWriteExt as _;
    let server = TestServer::start().await;
    let mut slow = Vec::new();
    for _ in 0..12 {
        let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let head = "POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
            Content-Length: 100\r\n\r\n{";
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    let ada = Principal::new("ada", [Scope::Use]);
    for _ in 0..20 {
        let code = server.state.access.add_code(&ada).unwrap();
        assert!(sign_in(&server, &code, None).await.is_some());
    }
    let long = server.request(Method::POST, "/sign-in").json(&json!({"code": "x".repeat(10_000)}));
    assert_eq!(long.send().await.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_codes_do_not_keep_a_person_from_signing_in() {
    let server = TestServer::start().await;
    let code = server.state.access.add_code(&Principal::new("ada", [Scope::Use])).unwrap();
    let wrong = futures::future::join_all((0..40).map(|_| sign_in(&server, "WRONG", None)));
    // The wrong codes have arrived, and are answered after a pause.
    let right = async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        sign_in(&server, &code, None).await
    };
    let (wrong, right) = tokio::join!(wrong, right);
    assert!(right.is_some() && wrong.iter().all(Option::is_none), "{right:?}, {wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_code_ends_no_session() {
    let server = TestServer::start().await;
    let code = server.state.access.add_code(&Principal::new("ada", [Scope::Use])).unwrap();
    let cookie = sign_in(&server, &code, None).await.unwrap();
    assert!(sign_in(&server, "WRONG", Some(&cookie)).await.is_none());
    let me = server.request(Method::GET, "/api/v1/me").header("cookie", &cookie).send().await.unwrap();
    assert_eq!(me.status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_counts_once_the_database_of_keys_is_another_file() {
    let server = TestServer::start().await;
    let key = server.key("ada", &[Scope::Use]);
    assert_eq!(server.get(&key, "/api/v1/me").await.0, StatusCode::OK);
    // As a restored backup replaces it: here the key may be revoked, which this server cannot see.
    let file = server.state.access.directory().join("tollgate.access.db");
    std::fs::copy(&file, file.with_extension("restored")).unwrap();
    std::fs::rename(file.with_extension("restored"), &file).unwrap();
    let (status, problem) = server.get(&key, "/api/v1/me").await;
    assert_eq!((status, &problem["code"]), (StatusCode::INTERNAL_SERVER_ERROR, &json!("internal")));
    is_not_ready(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_store_was_moved_is_not_ready() {
    let server = TestServer::start().await;
    let file = server.state.access.directory().join("tollgate.db");
    std::fs::rename(&file, file.with_extension("moved")).unwrap();
    is_not_ready(&server).await;
}

/// Waits until the server says that it is not ready. An answer is given again for a second.
async fn is_not_ready(server: &TestServer) {
    let asked = async {
        while server.request(Method::GET, "/readyz").send().await.unwrap().status() == StatusCode::OK {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_starts_calls_within_the_limits_of_the_principal() {
    let server = TestServer::with(Setup { calls: Some(1), ..Setup::default() }).await;
    let ada = Principal::new("ada", [Scope::Use]);
    let cookie = sign_in(&server, &server.state.access.add_code(&ada).unwrap(), None).await.unwrap();
    let call = |tool: &str| {
        let request = server.request(Method::POST, &format!("/console/tools/{tool}"));
        let request = request.header("cookie", &cookie).header("origin", &server.url);
        request.header("content-type", "application/x-www-form-urlencoded").body("json=%7B%7D").send()
    };
    // The page of the call appears after a moment, and the call goes on.
    assert_eq!(call("sleep").await.unwrap().status(), StatusCode::SEE_OTHER);
    assert_eq!(call("echo").await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
}
