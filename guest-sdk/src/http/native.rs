//! Requests over plain TCP, for tests: HTTP/1.1 without TLS, one request per
//! connection, one after another.

use super::{Error, ErrorKind, Request, Response, Url};
use std::io::{ErrorKind as IoKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The longest head of a response, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// The longest body that is read if the request sets no limit, in bytes.
const MAX_BODY_BYTES: usize = 16 << 20;
/// The time to wait for the server if the request sets no timeout.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn send(requests: &[Request]) -> Vec<Result<Response, Error>> {
    requests.iter().map(send_one).collect()
}

fn send_one(request: &Request) -> Result<Response, Error> {
    let url = Url::parse(&request.url)?;
    let origin = url.origin();
    if url.scheme != "http" {
        let message = format!("A native test sends no request to {origin}: only http is possible.");
        return Err(Error::new(ErrorKind::Denied, message));
    }
    let max_bytes = request.max_body_bytes.map_or(MAX_BODY_BYTES, |bytes| bytes as usize);
    let bytes = exchange(request, &url, max_bytes).map_err(|error| match error.kind() {
        IoKind::WouldBlock | IoKind::TimedOut => {
            Error::new(ErrorKind::TimedOut, format!("{origin} does not answer in time."))
        }
        _ => Error::new(ErrorKind::Unreachable, format!("{origin} cannot be reached: {error}.")),
    })?;
    read(&bytes, max_bytes).ok_or_else(|| {
        Error::new(ErrorKind::BadResponse, format!("{origin} does not answer in acceptable HTTP."))
    })
}

fn exchange(request: &Request, url: &Url, max_bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(&url.authority)?;
    stream.set_read_timeout(Some(request.timeout.unwrap_or(TIMEOUT)))?;
    let mut text = format!(
        "{} {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n",
        request.method, url.path, url.authority
    );
    for (name, value) in &request.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n", request.body.len()));
    stream.write_all(&[text.as_bytes(), &request.body].concat())?;
    let mut answer = Vec::new();
    stream.take((MAX_HEAD_BYTES + max_bytes) as u64 + 1).read_to_end(&mut answer)?;
    Ok(answer)
}

fn read(bytes: &[u8], max_bytes: usize) -> Option<Response> {
    let end = bytes.windows(4).position(|end| end == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_lowercase(), value.trim().to_owned()))
    });
    let body = &bytes[end + 4..];
    let kept = body.len().min(max_bytes);
    Some(Response {
        status,
        headers: headers.collect(),
        body: body[..kept].to_vec(),
        truncated: body.len() > kept,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::net::TcpListener;

    fn answers(response: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/a?b", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).unwrap();
            stream.write_all(response.as_bytes()).unwrap();
            String::from_utf8_lossy(&buffer[..read]).into_owned()
        });
        (url, served)
    }

    #[test]
    fn a_request_is_sent_and_its_response_is_bounded() {
        let (url, served) = answers("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello world");
        let request = Request::new("post", &url).header("x-a", "1").body("body").max_body_bytes(5);
        let response = request.send().unwrap();
        let sent = served.join().unwrap();
        assert!(
            sent.starts_with("POST /a?b HTTP/1.1\r\n")
                && sent.contains("x-a: 1\r\n")
                && sent.ends_with("body"),
            "{sent}"
        );
        assert_eq!((response.status, response.header("content-type")), (200, Some("text/plain")));
        assert_eq!((response.text().as_str(), response.truncated), ("hello", true));
    }

    #[test]
    fn a_server_that_does_not_answer_is_told_from_one_that_is_not_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let request = Request::get(format!("http://{address}/")).timeout(Duration::from_millis(20));
        assert_eq!(request.send().unwrap_err().kind(), ErrorKind::TimedOut);
        drop(listener);
        assert_eq!(request.send().unwrap_err().kind(), ErrorKind::Unreachable);
        assert_eq!(Request::get("a.test").send().unwrap_err().kind(), ErrorKind::BadRequest);
        assert_eq!(Request::get("https://a.test").send().unwrap_err().kind(), ErrorKind::Denied);
    }
}
