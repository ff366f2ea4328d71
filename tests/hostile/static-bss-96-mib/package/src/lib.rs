use std::sync::Mutex;

static BIG: Mutex<[u8; 96 << 20]> = Mutex::new([0; 96 << 20]);

pub fn handle(request: &[u8]) -> Vec<u8> {
    let mut big = BIG.lock().unwrap();
    big[request.len() * 4096] = 1;
    vec![big[7]]
}
