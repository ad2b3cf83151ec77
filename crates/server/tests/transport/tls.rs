//! TLS: certificates of ours, of clients, and new ones while the server runs.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use terrace_server::{ClientAuth, Endpoint, ServerOptions, TlsOptions};

use super::ours::{Ours, PATIENCE, ask, is_closed};

/// An authority and the directory where its certificates lie.
struct Authority {
    dir: tempfile::TempDir,
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(dir.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { dir, certificate, issuer: Issuer::new(params, key) }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes `NAME.pem` and `NAME.key`.
    fn issue(&self, name: &str) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (cert_file, key_file) = (self.file(&format!("{name}.pem")), self.file(&format!("{name}.key")));
        fs::write(&cert_file, certificate.pem()).unwrap();
        fs::write(&key_file, key.serialize_pem()).unwrap();
        (cert_file, key_file)
    }

    fn options(&self, client_auth: ClientAuth) -> TlsOptions {
        let (cert_file, key_file) = self.issue("server");
        let ca_file = Some(self.file("ca.pem"));
        TlsOptions { cert_file, key_file: Some(key_file), ca_file, client_auth, only_tls13: false }
    }

    fn client(
        &self,
        shown: Option<(PathBuf, PathBuf)>,
        version: &'static rustls::SupportedProtocolVersion,
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
        let builder = builder.with_root_certificates(roots);
        Arc::new(match shown {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let cert = CertificateDer::from_pem_file(cert).unwrap();
                builder.with_client_auth_cert(vec![cert], PrivateKeyDer::from_pem_file(key).unwrap()).unwrap()
            }
        })
    }
}

type TlsClient = StreamOwned<ClientConnection, TcpStream>;

fn connect(endpoint: &Endpoint, config: &Arc<ClientConfig>) -> TlsClient {
    let socket = TcpStream::connect(endpoint.address().unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(config.clone(), name).unwrap(), socket)
}

/// Whether the server lets this client in.
fn is_served(endpoint: &Endpoint, config: &Arc<ClientConfig>) -> bool {
    let mut client = connect(endpoint, config);
    let mut answer = [0; 7];
    client.write_all(b"PING\r\n").and_then(|()| client.read_exact(&mut answer)).is_ok()
        && &answer == b"+PONG\r\n"
}

fn start(tls: TlsOptions) -> Ours {
    let at = || vec![Endpoint::Tls((Ipv4Addr::LOCALHOST, 0).into())];
    let tls = Some(tls);
    let handshake_timeout = Duration::from_millis(200);
    Ours::start(ServerOptions {
        redis: at(),
        memcached: at(),
        tls,
        handshake_timeout,
        ..ServerOptions::default()
    })
}

fn subject_of(client: &TlsClient) -> Vec<u8> {
    client.conn.peer_certificates().unwrap()[0].to_vec()
}

#[test]
fn both_protocols_and_versions_and_large_values_go_through() {
    let authority = Authority::new();
    let ours = start(authority.options(ClientAuth::No));
    let addresses = ours.server.addresses();
    assert_eq!((addresses.redis, addresses.memcached), (None, None), "those are the ports without TLS");
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = authority.client(None, version);
        let mut redis = connect(&addresses.all_redis[0], &config);
        // Both ways more than any buffer on the way.
        let value = "x".repeat(5 << 20);
        redis
            .write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n", value.len()).as_bytes())
            .unwrap();
        ask(&mut redis, "", "+OK\r\n");
        let answer = format!("${0}\r\n{value}\r\n${0}\r\n{value}\r\n", value.len());
        ask(&mut redis, "GET k\r\nGET k\r\n", &answer);
        ask(&mut redis, &"PING\r\n".repeat(20_000), &"+PONG\r\n".repeat(20_000));
        let mut memcached = connect(&addresses.all_memcached[0], &config);
        ask(&mut memcached, "set a 0 0 1\r\n1\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
        ask(&mut redis, "QUIT\r\n", "+OK\r\n");
        assert_eq!(redis.read(&mut [0]).unwrap(), 0, "closed in TLS, too, not cut off");
    }
    ours.stop();
}

#[test]
fn client_certificates_are_demanded_or_looked_at_or_not() {
    let (authority, other) = (Authority::new(), Authority::new());
    let version = &rustls::version::TLS13;
    let right = authority.client(Some(authority.issue("client")), version);
    let none = authority.client(None, version);
    let wrong = authority.client(Some(other.issue("client")), version);
    for (auth, served) in [
        (ClientAuth::Yes, [true, false, false]),
        (ClientAuth::Optional, [true, true, false]),
        (ClientAuth::No, [true, true, true]),
    ] {
        let ours = start(authority.options(auth));
        let at = &ours.server.addresses().all_redis[0];
        let found = [&right, &none, &wrong].map(|config| is_served(at, config));
        assert_eq!(found, served, "{auth}");
        let failed = served.iter().filter(|served| !**served).count();
        ours.wait_for("tls_handshakes_failed_total", failed as u64);
        ours.stop();
    }
}

#[test]
fn who_speaks_no_tls_is_closed_and_so_is_who_says_nothing() {
    let authority = Authority::new();
    let ours = start(authority.options(ClientAuth::No));
    let at = ours.server.addresses().all_redis[0].address().unwrap();
    let mut plain = TcpStream::connect(at).unwrap();
    plain.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
    let mut alert = Vec::new();
    let _reset = plain.read_to_end(&mut alert);
    assert!(alert.first().is_none_or(|kind| *kind == 21), "an alert or nothing, but {alert:?}");
    let mut silent = TcpStream::connect(at).unwrap();
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(is_closed(&mut silent), "a handshake has its time");
    let config = authority.client(None, &rustls::version::TLS13);
    let mut shaken = connect(&ours.server.addresses().all_redis[0], &config);
    ask(&mut shaken, "PING\r\n", "+PONG\r\n");
    std::thread::sleep(Duration::from_millis(500));
    ask(&mut shaken, "PING\r\n", "+PONG\r\n");
    ours.stop();
}

/// A connection whose handshake is done.
fn connected(at: &Endpoint, config: &Arc<ClientConfig>) -> TlsClient {
    let mut stream = connect(at, config);
    ask(&mut stream, "PING\r\n", "+PONG\r\n");
    stream
}

#[test]
fn new_connections_see_new_certificates() {
    let authority = Authority::new();
    let ours = start(authority.options(ClientAuth::No));
    let at = ours.server.addresses().all_redis[0].clone();
    let config = authority.client(None, &rustls::version::TLS13);
    let mut before = connect(&at, &config);
    ask(&mut before, "PING\r\n", "+PONG\r\n");
    authority.issue("server");
    ours.server.reload_tls().unwrap();
    let mut after = connect(&at, &config);
    ask(&mut after, "PING\r\n", "+PONG\r\n");
    assert_ne!(subject_of(&before), subject_of(&after));
    ask(&mut before, "PING\r\n", "+PONG\r\n");
    authority.issue("server");
    let file = authority.file("server.pem").display().to_string();
    ask(&mut before, &format!("CONFIG SET tls-cert-file {file}\r\n"), "+OK\r\n");
    let mut latest = connect(&at, &config);
    ask(&mut latest, "PING\r\n", "+PONG\r\n");
    assert_ne!(subject_of(&latest), subject_of(&after));
    ask(&mut connect(&at, &config), "CONFIG SET tls-cert-file /nowhere.pem\r\n", "-ERR CONFIG SET failed");
    // A certificate of another key comes together with it, and alone not at all.
    authority.issue("other");
    let [other, key] = ["other.pem", "other.key"].map(|name| authority.file(name).display().to_string());
    ask(
        &mut connect(&at, &config),
        &format!("CONFIG SET tls-cert-file {other}\r\n"),
        "-ERR CONFIG SET failed",
    );
    assert_eq!(subject_of(&connected(&at, &config)), subject_of(&latest));
    ask(
        &mut connect(&at, &config),
        &format!("CONFIG SET tls-cert-file {other} tls-key-file {key} hz x\r\n"),
        "-ERR CONFIG SET failed",
    );
    assert_eq!(subject_of(&connected(&at, &config)), subject_of(&latest), "all or none");
    ask(
        &mut latest,
        &format!("CONFIG SET hz 10 tls-cert-file {other} maxclients 500 tls-key-file {key}\r\n"),
        "+OK\r\n",
    );
    assert_ne!(subject_of(&connected(&at, &config)), subject_of(&latest));
    // What comes with certificates that can't be loaded is not changed either.
    ask(
        &mut connect(&at, &config),
        "CONFIG SET maxclients 400 tls-cert-file /nowhere.pem\r\n",
        "-ERR CONFIG SET failed",
    );
    ask(&mut latest, "CONFIG GET maxclients\r\n", "*2\r\n$10\r\nmaxclients\r\n$3\r\n500\r\n");
    let [server, key] = ["server.pem", "server.key"].map(|name| authority.file(name).display().to_string());
    ask(&mut latest, &format!("CONFIG SET tls-key-file {key} tls-cert-file {server}\r\n"), "+OK\r\n");
    let mut memcached = connect(&ours.server.addresses().all_memcached[0], &config);
    ask(&mut memcached, "refresh_certs\r\n", "OK\r\n");
    fs::write(authority.file("server.pem"), "nonsense").unwrap();
    ask(
        &mut memcached,
        "refresh_certs\r\n",
        "Error loading the certificate files: those in use stay; the log says why\r\n",
    );
    let error = ours.server.reload_tls().unwrap_err().to_string();
    assert!(error.contains("server.pem") && error.contains("no certificate"), "{error}");
    assert!(is_served(&at, &config), "what was in force stays");
    ours.stop();
}

#[test]
fn files_that_do_not_fit_are_told() {
    let authority = Authority::new();
    let options = || authority.options(ClientAuth::Yes);
    let error = |tls: TlsOptions| {
        let store =
            terrace::Options { engine: "dram".into(), dram_records: Some(16 << 20), ..Default::default() };
        let store = terrace::open(store).unwrap();
        let options = ServerOptions { tls: Some(tls), ..ServerOptions::default() };
        let error = terrace_server::Server::start(store.clone(), options).err().unwrap().to_string();
        store.close().unwrap();
        error
    };
    let missing = error(TlsOptions { cert_file: Path::new("/nowhere.pem").into(), ..options() });
    assert!(missing.contains("/nowhere.pem"), "{missing}");
    let (_, other_key) = authority.issue("other");
    let apart = error(TlsOptions { key_file: Some(other_key), ..options() });
    assert!(apart.contains("server.pem: is not the certificate of the key in "), "{apart}");
    assert!(apart.ends_with("other.key"), "{apart}");
    let nobody = error(TlsOptions { ca_file: None, ..options() });
    assert!(nobody.contains("CA file"), "{nobody}");
}

/// OpenSSL looks at what a key is, and so do files that were written for it.
#[test]
fn a_key_under_another_label_is_taken() {
    let authority = Authority::new();
    for label in ["RSA PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY"] {
        let options = authority.options(ClientAuth::No);
        let key_file = options.key_file.clone().unwrap();
        let text = fs::read_to_string(&key_file).unwrap().replace("PRIVATE KEY", label);
        fs::write(&key_file, text).unwrap();
        let ours = start(options);
        let at = ours.server.addresses().all_redis[0].clone();
        assert!(is_served(&at, &authority.client(None, &rustls::version::TLS13)), "{label}");
        ours.stop();
    }
}

#[test]
fn an_encrypted_key_says_so() {
    let authority = Authority::new();
    let options = authority.options(ClientAuth::No);
    let key_file = options.key_file.clone().unwrap();
    let plain = fs::read_to_string(&key_file).unwrap();
    let old = plain.replacen("-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n", 1);
    for text in
        [plain.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"), old.replace("PRIVATE KEY", "RSA PRIVATE KEY")]
    {
        fs::write(&key_file, text).unwrap();
        let store =
            terrace::Options { engine: "dram".into(), dram_records: Some(16 << 20), ..Default::default() };
        let store = terrace::open(store).unwrap();
        let options = ServerOptions { tls: Some(options.clone()), ..ServerOptions::default() };
        let error = terrace_server::Server::start(store.clone(), options).err().unwrap().to_string();
        store.close().unwrap();
        assert!(
            error.contains("server.key: the key is encrypted") && error.contains("openssl pkey"),
            "{error}"
        );
    }
}
