//! Posts an event to a web server: one request of HTTP/1.1, of whose answer only the status is read.
//!
//! Servers on this machine are meant. There is no TLS: whoever needs it tells a command such as curl.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

/// Bytes of an answer that are read for its status line.
const STATUS_BYTES_MAX: usize = 1_024;
const PORT_DEFAULT: u16 = 80;

/// Where to post to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    host: String,
    port: u16,
    /// Host and port as they were written.
    pub(crate) authority: String,
    path: String,
    allow_remote: bool,
}

impl Address {
    /// Reads a URL; one of another machine only if that is allowed.
    pub(crate) fn read(url: &str, allow_remote: bool) -> Result<Address, String> {
        let rest =
            url.strip_prefix("http://").ok_or("`url` begins with http://; for TLS name a command such as curl")?;
        // Anything else could end the request line, and begin another request.
        if rest.bytes().any(|byte| !(0x21..0x7f).contains(&byte)) {
            return Err("`url` has white space or letters that must be escaped".to_owned());
        }
        let rest = rest.split('#').next().unwrap_or(rest);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err("`url` holds a user; it would be sent unprotected".to_owned());
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or("`url` has a [ without ]")?;
                (host, port.strip_prefix(':').unwrap_or(port))
            }
            None => authority.split_once(':').unwrap_or((authority, "")),
        };
        let port =
            if port.is_empty() { PORT_DEFAULT } else { port.parse().map_err(|_| "the port of `url` is no port")? };
        if host.is_empty() {
            return Err("`url` names no host".to_owned());
        }
        let is_near = host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !is_near && !allow_remote {
            return Err("`url` is of another machine; `allow_remote: true` allows that".to_owned());
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Address { host: host.to_owned(), port, authority: authority.to_owned(), path, allow_remote })
    }

    fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found = found.map_err(|error| format!("could not be found: {error}"))?;
        // A name that means this machine may still be sent elsewhere by the system's own tables.
        let near: Vec<SocketAddr> = found.filter(|at| self.allow_remote || at.ip().is_loopback()).collect();
        if near.is_empty() { Err("is not on this machine".to_owned()) } else { Ok(near) }
    }

    /// Posts a text of JSON. The error says in one line what went wrong.
    pub(crate) fn post(&self, json: &str, timeout: Duration) -> Result<(), String> {
        let until = Instant::now() + timeout;
        let late = || format!("did not answer within {} s", timeout.as_secs_f64());
        let left = || Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
        let mut last = late();
        for address in self.resolve()? {
            let Some(time) = left() else { break };
            match TcpStream::connect_timeout(&address, time) {
                Ok(stream) => return self.exchange(stream, json, &left).map_err(|why| why.unwrap_or_else(late)),
                Err(error) => last = format!("could not be reached: {error}"),
            }
        }
        Err(last)
    }

    /// Sends the request and reads the status; no reason is given for time that ran out.
    fn exchange(
        &self,
        mut stream: TcpStream,
        json: &str,
        left: &dyn Fn() -> Option<Duration>,
    ) -> Result<(), Option<String>> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => None,
            _ => Some(format!("broke off: {error}")),
        };
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{json}",
            self.path,
            self.authority,
            json.len()
        );
        stream.set_write_timeout(Some(left().ok_or(None)?)).map_err(failed)?;
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut answer = Vec::new();
        let mut buffer = [0u8; 256];
        while answer.len() < STATUS_BYTES_MAX && !answer.contains(&b'\n') {
            stream.set_read_timeout(Some(left().ok_or(None)?)).map_err(failed)?;
            match stream.read(&mut buffer).map_err(failed)? {
                0 => break,
                count => answer.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            }
        }
        let line = String::from_utf8_lossy(&answer);
        let mut words = line.split_ascii_whitespace();
        let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
        match words.next().and_then(|status| status.parse::<u16>().ok()).filter(|_| is_http) {
            Some(200..=299) => Ok(()),
            Some(status) => Err(Some(format!("answered with status {status}"))),
            None => Err(Some("did not answer as a web server does".to_owned())),
        }
    }
}
