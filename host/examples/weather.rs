//! A tool whose attempts are repeated after a timeout, because repeating it is harmless:
//! `cargo run --example weather`
//!
//! ```text
//! 22.5 degrees in Bern, at attempt 3
//! ```

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::{CallRequest, ExecutionPolicy, FnTool, Host, ToolContext};

#[derive(Deserialize, JsonSchema)]
struct Place {
    /// The name of the city.
    city: String,
}

/// Starts a server on this machine that answers the third request.
async fn start_server() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let mut unanswered = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            match unanswered.len() {
                2 => drop(stream.write_all(b"22.5").await),
                _ => unanswered.push(stream),
            }
        }
    });
    Ok(address)
}

async fn temperature(server: SocketAddr) -> io::Result<String> {
    let mut degrees = String::new();
    TcpStream::connect(server).await?.read_to_string(&mut degrees).await?;
    Ok(degrees)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = ExecutionPolicy {
        timeout_ms: Some(500), // for each attempt
        max_retries: Some(3),
        idempotent: true,
        ..ExecutionPolicy::default()
    };
    let server = start_server().await?;
    let weather = move |place: Place, call: ToolContext| async move {
        let degrees = temperature(server).await.map_err(|e| e.to_string())?;
        Ok::<_, String>(format!("{degrees} degrees in {}, at attempt {}", place.city, call.attempt()))
    };
    let weather =
        FnTool::new("weather", "get_weather", "The weather of a city.", weather).with_execution(policy);
    let host = Host::builder().tool(weather).build()?;
    let end = host.call(CallRequest::new("get_weather", &json!({"city": "Bern"}))?).await?;
    println!("{}", end.result().ok_or("the call failed")?.data.words());
    Ok(())
}
