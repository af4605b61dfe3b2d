//! `weather`: a client of a JSON API, with settings for its address and its units.
//! Its key, if the API requires one, is the host's secret and never reaches the tool.

mod settings;

use serde::{Deserialize, Serialize};
use tollgate_sdk::{CodedError, component, serde_json, tool};
use web::{Request, encode};

/// The default API, unless the setting `api` names another.
const API: &str = "https://api.open-meteo.com";
/// The longest response that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 256 << 10;

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

/// The part of the API's response that is read.
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

/// Returns the current weather at a place.
///
/// Args:
///     latitude: Degrees north, such as 52.52.
///     longitude: Degrees east, such as 13.41.
#[tool(category = "web", idempotent, timeout = "20s")]
pub fn weather(latitude: f64, longitude: f64) -> Result<Weather, CodedError> {
    let api = settings::get("api").unwrap_or_else(|| API.to_owned());
    let imperial = settings::get("units").is_some_and(|units| units == "imperial");
    ask(&api, imperial, latitude, longitude)
}

fn ask(api: &str, imperial: bool, latitude: f64, longitude: f64) -> Result<Weather, CodedError> {
    if !(-90.0..=90.0).contains(&latitude) || !(-180.0..=180.0).contains(&longitude) {
        return Err(CodedError::new(
            "no_such_place",
            "Latitude is within -90..90, longitude within -180..180.",
        ));
    }
    let unit = if imperial { "fahrenheit" } else { "celsius" };
    let current = encode("temperature_2m,wind_speed_10m,weather_code");
    let url = format!(
        "{}/v1/forecast?latitude={latitude}&longitude={longitude}&temperature_unit={unit}&current={current}",
        api.trim_end_matches('/')
    );
    read(&Request::get(&url)?.header("accept", "application/json").send(MAX_ANSWER_BYTES)?.successful()?.body)
}

fn read(body: &[u8]) -> Result<Weather, CodedError> {
    let answer: Answer = serde_json::from_slice(body).map_err(|why| {
        CodedError::new("bad_answer", format!("The API's response is not weather data: {why}."))
    })?;
    Ok(Weather {
        temperature: answer.current.temperature_2m,
        unit: answer.current_units.temperature_2m,
        wind_speed: answer.current.wind_speed_10m,
        sky: sky(answer.current.weather_code),
    })
}

/// Describes a weather code of the World Meteorological Organization.
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

    fn answers(status: &str, body: &str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let api = format!("http://{}/", listener.local_addr().unwrap());
        let response = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n\r\n{body}");
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).unwrap();
            stream.write_all(response.as_bytes()).unwrap();
            String::from_utf8_lossy(&buffer[..read]).into_owned()
        });
        (api, served)
    }

    #[test]
    fn the_weather_is_read_from_the_answer() {
        let (api, served) = answers("200 OK", ANSWER);
        let weather = ask(&api, true, 52.52, 13.41).unwrap();
        assert_eq!(
            weather,
            Weather { temperature: 17.5, unit: "°C".to_owned(), wind_speed: 9.0, sky: "rain" }
        );
        let sent = served.join().unwrap();
        assert!(
            sent.starts_with("GET /v1/forecast?latitude=52.52&longitude=13.41&temperature_unit=fahrenheit&"),
            "{sent}"
        );
    }

    #[test]
    fn another_answer_is_the_tools_own_error() {
        for (status, body, code) in [("200 OK", "<html>", "bad_answer"), ("503 No", "", "http_status")] {
            let (api, served) = answers(status, body);
            assert_eq!(ask(&api, false, 0.0, 0.0).unwrap_err().code(), code);
            served.join().unwrap();
        }
        assert_eq!(ask("http://127.0.0.1:1", false, 91.0, 0.0).unwrap_err().code(), "no_such_place");
    }
}
