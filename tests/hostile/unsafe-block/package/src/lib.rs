pub fn handle(request: &[u8]) -> Vec<u8> {
    let first = request.as_ptr();
    vec![unsafe { *first }]
}
