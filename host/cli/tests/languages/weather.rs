//! `weather` in every language: each sends the same requests to one server, and each turns the
//! same responses into the same answers.

use crate::built::{LANGUAGES, Language, compiled_from, load};
use crate::{all_equal, attended};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tollgate::{CallRequest, Host};
use tollgate_agent::run::CallEnd;

const SOURCES: &str = "../../example-tools/weather";
/// The time that the tools wait for the server, in milliseconds.
const TIMEOUT_MS: u64 = 1_500;
pub(crate) const KEY: &str = "the-key-of-the-weather";

impl Language {
    /// The name of its weather.
    pub(crate) fn weather(&self) -> String {
        match self.tool().strip_prefix("text_stats_") {
            None | Some("rust") => "weather".to_owned(),
            Some(suffix) => format!("weather_{suffix}"),
        }
    }
}

/// A server whose answer depends on the latitude that it is asked for.
pub(crate) struct Server {
    pub(crate) origin: String,
    /// The heads of the requests of the call in progress.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&seen)));
            }
        });
        Self { origin, asked }
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

async fn serve(mut stream: TcpStream, asked: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let before = asked.lock().unwrap().len();
    asked.lock().unwrap().push(head.clone());
    let latitude: f64 =
        head.split("latitude=").nth(1).unwrap().split(['&', ' ']).next().unwrap().parse().unwrap();
    let body = |temperature: &str, unit: &str| {
        let of_place =
            format!(r#"{{"temperature_2m":{temperature},"wind_speed_10m":9.25,"weather_code":61,"x":[1]}}"#);
        format!(r#"{{"current":{of_place},"current_units":{{"temperature_2m":"{unit}"}},"more":"😀"}}"#)
    };
    let answer = match (latitude as i64, before) {
        (1, _) | (7, 2..) => ok(&body("17.5", "°C")),
        (2, _) => "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone".to_owned(),
        (3, _) => "HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n".to_owned(),
        (4, _) => "HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n".to_owned(),
        (5, _) => {
            // It answers after the tool has given up.
            tokio::time::sleep(Duration::from_mins(1)).await;
            return;
        }
        (6, _) => ok(&format!(r#"{{"large":"{}"}}"#, "x".repeat(300 << 10))),
        (7, _) => "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n".to_owned(),
        (8, _) => ok("<html>no weather</html>"),
        (9, _) => ok(r#"{"current":{},"current_units":{}}"#),
        (10, _) => "this is not HTTP at all\r\n\r\n".to_owned(),
        (11, _) => ok(&body("1.5", KEY)),
        // Nothing: the connection breaks off.
        _ => String::new(),
    };
    let _ = stream.write_all(answer.as_bytes()).await;
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A host with the weather in every language, whose API is at this address, and which may ask what
/// is below `granted`.
pub(crate) async fn host(api: &str, granted: &str) -> Host {
    let compiled = compiled_from(SOURCES);
    fs::write(compiled.path().join("key"), KEY).unwrap();
    // The manifests ask for the real API only, and a component gets no more than it asks for.
    for file in fs::read_dir(compiled.path().join("tools")).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|extension| extension == "toml") {
            fs::remove_file(file).unwrap();
        }
    }
    let mut config = format!(
        "[secrets.weather-key]\nfile = \"key\"\nto = \"{}\"\nheader = \"x-key\"\n",
        origin_of(granted)
    );
    for language in &LANGUAGES {
        config.push_str(&format!(
            "[grants.{}]\nhttp = [\"{granted}\"]\nsecrets = [\"weather-key\"]\nsettings = {{ api = \"{api}/\", units = \"imperial\", timeout_ms = \"{TIMEOUT_MS}\" }}\n",
            language.weather().replace('_', "-")
        ));
    }
    let (toolbox, _) = load(compiled.path(), &config).await;
    Host::builder().toolbox(toolbox).build().unwrap()
}

fn origin_of(url: &str) -> String {
    url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/")
}

/// The end that the calls of all languages have, and the requests that all of them sent.
async fn all_ask(host: &Host, server: &Server, latitude: i64) -> (Value, Vec<String>) {
    let (mut answers, mut requests) = (Vec::new(), HashMap::new());
    for language in &LANGUAGES {
        let arguments = json!({"latitude": latitude, "longitude": 13.41}).to_string();
        let call = host.start_call(CallRequest::from_json(language.weather(), arguments)).await.unwrap();
        let (end, _) = attended(call).await;
        let end = json!(end.last_call.unwrap().end).to_string();
        answers.push(end.replace(&format!("'{}'", language.weather()), "'TOOL'"));
        requests.insert(language.name, server.take());
    }
    let sent = requests["rust"].iter().map(|head| said_of(head)).collect::<Vec<_>>();
    for (language, heads) in &requests {
        assert_eq!(
            heads.iter().map(|head| said_of(head)).collect::<Vec<_>>(),
            sent,
            "{language}: {latitude}"
        );
    }
    (serde_json::from_str(&all_equal(&answers, &latitude.to_string())).unwrap(), sent)
}

/// The parts of a request that are the tool's, in one order.
fn said_of(head: &str) -> String {
    let mut lines = head.lines();
    let first = lines.next().unwrap().to_owned();
    let mut kept: Vec<String> = lines
        .map(str::to_lowercase)
        .filter(|line| ["accept:", "x-key:"].iter().any(|name| line.starts_with(name)))
        .collect();
    kept.sort();
    [vec![first], kept].concat().join("\n")
}

/// The code and the message of a tool's own error.
fn error_of(end: &Value) -> (String, String) {
    match serde_json::from_value(end.clone()).unwrap_or_else(|e| panic!("{e}: {end}")) {
        CallEnd::Result(result) if !result.is_success() => {
            let text = |name: &str| result.data["error"][name].as_str().unwrap_or_default().to_owned();
            (text("code"), text("message"))
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn k14_every_language_sends_the_same_requests_and_reads_the_same_answers() {
    let server = Server::start().await;
    let origin = &server.origin;
    let host = host(origin, &format!("{origin}/v1/")).await;
    let request = |latitude: i64| {
        format!(
            "GET /v1/forecast?latitude={latitude}.0000&longitude=13.4100&temperature_unit=fahrenheit&current=temperature_2m%2Cwind_speed_10m%2Cweather_code HTTP/1.1\naccept: application/json\nx-key: {KEY}"
        )
    };
    let weather = |unit: &str, temperature: f64| {
        json!({"result": {"status": "success", "data": {
            "temperature": temperature, "unit": unit, "wind_speed": 9.25, "sky": "rain",
        }}})
    };
    assert_eq!(all_ask(&host, &server, 1).await, (weather("°C", 17.5), vec![request(1)]));
    // A failure that may pass is tried again.
    assert_eq!(all_ask(&host, &server, 7).await, (weather("°C", 17.5), vec![request(7); 3]));
    // A server that returns the key does not tell it to the tool.
    let (end, _) = all_ask(&host, &server, 11).await;
    assert_eq!(end, weather(&"*".repeat(KEY.len()), 1.5));

    for (latitude, attempts, code, message) in [
        (2, 1, "not_found", "The server has nothing at this address.".to_owned()),
        (3, 1, "redirected", "The server redirects to /elsewhere.".to_owned()),
        (4, 1, "http_status", "The server answered with the status 500.".to_owned()),
        (5, 3, "timed_out", format!("{origin} does not answer in time.")),
        (6, 1, "too_large", "The answer is longer than 262144 bytes.".to_owned()),
        (8, 1, "bad_answer", "The API did not answer with the weather.".to_owned()),
        (9, 1, "bad_answer", "The API did not answer with the weather.".to_owned()),
        (10, 1, "bad_response", format!("{origin} does not answer in acceptable HTTP.")),
        (12, 3, "unreachable", format!("{origin} cannot be reached: the connection broke off.")),
    ] {
        let (end, sent) = all_ask(&host, &server, latitude).await;
        assert_eq!(error_of(&end), (code.to_owned(), message), "{latitude}");
        assert_eq!(sent, vec![request(latitude); attempts], "{latitude}");
    }
    let (end, sent) = all_ask(&host, &server, 91).await;
    assert_eq!((error_of(&end).0.as_str(), sent.len()), ("no_such_place", 0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn k14_no_language_sends_what_was_not_granted() {
    let server = Server::start().await;
    let origin = &server.origin;
    let elsewhere = host(&format!("{origin}/other"), &format!("{origin}/v1/")).await;
    let (end, sent) = all_ask(&elsewhere, &server, 1).await;
    let message = format!("The host does not allow this request to {origin}. An operator can grant it.");
    assert_eq!((error_of(&end), sent.len()), (("denied".to_owned(), message), 0));
}
