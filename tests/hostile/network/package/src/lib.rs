use std::io::Read;

pub fn handle(_request: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    if let Ok(mut stream) = std::net::TcpStream::connect("127.0.0.1:7700") {
        stream.read_to_end(&mut answer).ok();
    }
    answer
}
