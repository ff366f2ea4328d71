//! Servers with certificates.

use super::*;

/// A server with a certificate for `localhost` of this authority: its port.
async fn secure_server(authority: &rcgen::Issuer<'_, rcgen::KeyPair>) -> u16 {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let key = rcgen::KeyPair::generate().unwrap();
    let names = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = names.signed_by(&key, authority).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.serialize_der().try_into().unwrap())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust it leaves in the handshake.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") && stream.read_buf(&mut request).await.unwrap() > 0 {}
            stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    port
}

#[tokio::test]
async fn a_server_has_a_certificate_for_its_name_of_an_authority_that_is_trusted() {
    provider();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let port = secure_server(&rcgen::Issuer::new(params, key)).await;
    let authorities = tempfile::tempdir().unwrap();
    std::fs::write(authorities.path().join("ca.pem"), pem).unwrap();
    let ca_file = format!("ca_file = \"{}/ca.pem\"", authorities.path().display());
    for (host, trusts, answers) in
        [("localhost", &*ca_file, true), ("localhost", "", false), ("127.0.0.1", &ca_file, false)]
    {
        let networks = "networks = [\"127.0.0.0/8\", \"::1/128\"]";
        let text = format!("[http.api]\norigin = \"https://{host}:{port}\"\n{networks}\n{trusts}\n");
        let (outbound, _directory) = open(&text).unwrap();
        let answer = Asked::get("/").of(&outbound).await;
        assert_eq!(answer.is_ok(), answers, "{host}, {trusts}: {answer:?}");
    }
}
