//! A provider that answers at once, whole or as thirty events.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Starts it and returns its origin.
pub(crate) fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    origin
}

fn serve(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let usage = r#"{"prompt_tokens":1000,"completion_tokens":30,"total_tokens":1030}"#;
    let body = format!(
        r#"{{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"ok"}},"finish_reason":"stop"}}],"usage":{usage}}}"#
    );
    let whole =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut events = String::new();
    for nth in 0..30 {
        events.push_str(&format!("data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"word {nth} \"}},\"finish_reason\":null}}]}}\n\n"));
    }
    events.push_str(&format!("data: {{\"id\":\"c\",\"choices\":[],\"usage\":{usage}}}\n\ndata: [DONE]\n\n"));
    let streamed = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{events}\r\n0\r\n\r\n",
        events.len()
    );
    let mut buffer = vec![0_u8; 256 * 1024];
    let mut head = Vec::new();
    loop {
        head.clear();
        // The head first, then as much as it says.
        let (start, length) = loop {
            let Ok(read) = stream.read(&mut buffer) else { return };
            if read == 0 {
                return;
            }
            head.extend_from_slice(&buffer[..read]);
            if let Some(end) = find(&head, b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&head[..end]).to_ascii_lowercase();
                let length = text
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "))
                    .map_or(0, |text| text.trim().parse().unwrap());
                break (end + 4, length);
            }
        };
        let wants_stream = find(&head[start..], b"\"stream\":true").is_some();
        let mut left: usize = length - (head.len() - start).min(length);
        while left > 0 {
            let Ok(read) = stream.read(&mut buffer) else { return };
            if read == 0 {
                return;
            }
            left -= read.min(left);
        }
        let answer = if wants_stream { &streamed } else { &whole };
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

pub(crate) fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}
