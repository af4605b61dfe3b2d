//! `weather`: a client of a JSON API, with settings for its address and its units.
//! Its key, if the API requires one, is the host's secret and never reaches the tool.

use serde::{Deserialize, Serialize};
use std::thread::sleep;
use std::time::Duration;
use tollgate_sdk::http::{Error, ErrorKind, Request, Response};
use tollgate_sdk::{CodedError, Context, component, tool};

/// The default API, unless the setting `api` names another.
const API: &str = "https://api.open-meteo.com";
/// The time for one request in milliseconds, unless the setting `timeout_ms` is another.
const TIMEOUT_MS: u64 = 5_000;
/// The longest answer that is read, in bytes.
const MAX_ANSWER_BYTES: u32 = 256 << 10;
/// The pauses before the second and the third attempt.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(200)];

/// The current weather at a place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Weather {
    /// The temperature in the unit named by `unit`.
    pub temperature: f64,
    /// `°C` or `°F`.
    pub unit: String,
    /// The wind speed in kilometres per hour.
    pub wind_speed: f64,
    /// The sky in a few words.
    pub sky: &'static str,
}

/// The part of the API's answer that is read.
#[derive(Debug, Deserialize)]
struct Answer {
    current: Current,
    current_units: Units,
}

#[derive(Debug, Deserialize)]
struct Current {
    temperature_2m: f64,
    wind_speed_10m: f64,
    weather_code: u32,
}

#[derive(Debug, Deserialize)]
struct Units {
    temperature_2m: String,
}

/// Returns the weather at a place now.
///
/// Args:
///     latitude: Degrees north, such as 52.52.
///     longitude: Degrees east, such as 13.41.
#[tool(category = "web", idempotent, timeout = "20s")]
pub fn weather(latitude: f64, longitude: f64, ctx: &Context) -> Result<Weather, CodedError> {
    if !(-90.0..=90.0).contains(&latitude) || !(-180.0..=180.0).contains(&longitude) {
        return Err(CodedError::new(
            "no_such_place",
            "Latitude is within -90..90, longitude within -180..180.",
        ));
    }
    let request = request(latitude, longitude, ctx);
    let mut response = ask(&request);
    for pause in PAUSES {
        if !response.as_ref().is_err_and(Error::is_transient) {
            break;
        }
        sleep(pause);
        response = ask(&request);
    }
    let answer: Answer = response?.json().map_err(unreadable)?;
    Ok(Weather {
        temperature: answer.current.temperature_2m,
        unit: answer.current_units.temperature_2m,
        wind_speed: answer.current.wind_speed_10m,
        sky: sky(answer.current.weather_code),
    })
}

fn request(latitude: f64, longitude: f64, ctx: &Context) -> Request {
    let api = ctx.setting("api").unwrap_or_else(|| API.to_owned());
    let imperial = ctx.setting("units").is_some_and(|units| units == "imperial");
    let timeout_ms = ctx.setting("timeout_ms").and_then(|text| text.parse().ok()).unwrap_or(TIMEOUT_MS);
    Request::get(format!("{}/v1/forecast", api.trim_end_matches('/')))
        .query("latitude", format!("{latitude:.4}"))
        .query("longitude", format!("{longitude:.4}"))
        .query("temperature_unit", if imperial { "fahrenheit" } else { "celsius" })
        .query("current", "temperature_2m,wind_speed_10m,weather_code")
        .header("accept", "application/json")
        .timeout(Duration::from_millis(timeout_ms))
        .max_body_bytes(MAX_ANSWER_BYTES)
}

fn ask(request: &Request) -> Result<Response, Error> {
    request.send()?.successful()
}

fn unreadable(error: Error) -> CodedError {
    match error.kind() {
        ErrorKind::TooLarge => error.into(),
        _ => CodedError::new("bad_answer", "The API did not answer with the weather."),
    }
}

/// Describes the codes of the World Meteorological Organization.
fn sky(code: u32) -> &'static str {
    match code {
        0 => "clear",
        1..=3 => "clouds",
        45 | 48 => "fog",
        51..=57 => "drizzle",
        61..=67 | 80..=82 => "rain",
        71..=77 | 85 | 86 => "snow",
        95..=99 => "thunderstorm",
        _ => "unknown",
    }
}

component! { id: "weather", tools: [weather] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const ANSWER: &str = r#"{"current":{"temperature_2m":17.5,"wind_speed_10m":9,"weather_code":61,"more":1},
        "current_units":{"temperature_2m":"°C"},"more":[]}"#;

    /// Serves these statuses and bodies, one after another; returns what was sent.
    fn serving(
        answers: Vec<(&'static str, &'static str)>,
    ) -> (Context, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let api = format!("http://{}/", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let answer = |(status, body): (&str, &str)| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut buffer = [0; 4096];
                let read = stream.read(&mut buffer).unwrap();
                write!(stream, "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n\r\n{body}").unwrap();
                String::from_utf8_lossy(&buffer[..read]).into_owned()
            };
            answers.into_iter().map(answer).collect()
        });
        (Context::for_test().with_setting("api", api).with_setting("units", "imperial"), served)
    }

    #[test]
    fn the_weather_is_read_from_the_answer() {
        let (ctx, served) = serving(vec![("503 No", ""), ("200 OK", ANSWER)]);
        let read = weather(52.52, 13.41, &ctx).unwrap();
        assert_eq!(read, Weather { temperature: 17.5, unit: "°C".to_owned(), wind_speed: 9.0, sky: "rain" });
        let sent = served.join().unwrap();
        let asked = "GET /v1/forecast?latitude=52.5200&longitude=13.4100&temperature_unit=fahrenheit&current=temperature_2m%2Cwind";
        assert!(sent.iter().all(|one| one.starts_with(asked)), "{sent:?}");
        assert_eq!(sent.len(), 2, "a failure that may pass is tried again");
    }

    #[test]
    fn another_answer_is_the_tools_own_error() {
        for (status, body, code) in
            [("200 OK", "<html>", "bad_answer"), ("404 No", "", "not_found"), ("302 Found", "", "redirected")]
        {
            let (ctx, served) = serving(vec![(status, body)]);
            assert_eq!(weather(0.0, 0.0, &ctx).unwrap_err().code(), code);
            served.join().unwrap();
        }
        assert_eq!(weather(91.0, 0.0, &Context::for_test()).unwrap_err().code(), "no_such_place");
    }
}
