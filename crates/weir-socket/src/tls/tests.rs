use std::future::poll_fn;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream as Peer;
use std::path::Path;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio::net::UnixStream;

use super::*;
use crate::Peek;

/// A server of the tests, on its end of a pair of sockets.
type Server = StreamOwned<ServerConnection, Peer>;

const OFFERED: &[u8] = b"offered";

/// For `localhost`, signed by itself, good until 2126.
fn certificate() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tls/tests/certificate.pem")
}

fn server(protocols: &[&[u8]], socket: Peer) -> Server {
    let certificate = CertificateDer::from_pem_file(certificate()).expect("there is one");
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tests/key.pem")).expect("it is one");
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("there are versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("they belong together");
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let session = ServerConnection::new(Arc::new(config)).expect("the config is good");
    StreamOwned::new(session, socket)
}

/// Runs `test` with what came of a handshake, while a thread does what `serve` says behind it.
fn with_server(
    client: &Client,
    protocols: &[&[u8]],
    serve: impl FnOnce(Server) + Send,
    test: impl AsyncFnOnce(Result<Stream, Error>),
) {
    let (own, peer) = Peer::pair().expect("there are sockets");
    own.set_nonblocking(true).expect("it is a socket");
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_io().build().expect("there is a runtime");
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut server = server(protocols, peer);
            while server.conn.is_handshaking() {
                if server.conn.complete_io(&mut server.sock).is_err() {
                    return;
                }
            }
            serve(server);
        });
        runtime.block_on(async {
            let socket = UnixStream::from_std(own).expect("it is a socket");
            test(client.connect(Socket::Unix(socket)).await).await;
        });
    });
}

fn client(trust: &Trust) -> Client {
    Client::new("localhost", trust, &[OFFERED]).expect("all of it is good")
}

async fn read(stream: &Stream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    poll_fn(|cx| stream.poll_read(buffer, cx)).await
}

#[test]
fn content_goes_both_ways_until_the_end_is_said() {
    let serve = |mut server: Server| {
        let mut asked = [0; 9];
        server.read_exact(&mut asked).expect("it was sent");
        assert_eq!(&asked, b"onetwosix");
        server.write_all(b"answer").expect("it is open");
        assert_eq!(server.read(&mut asked).expect("it is an end"), 0);
        server.conn.send_close_notify();
        server.flush().expect("it is open");
    };
    with_server(&client(&Trust::Anybody), &[], serve, async |stream| {
        let stream = stream.expect("they agree");
        let sent = poll_fn(|cx| stream.poll_write(cx, b"one", b"two")).await;
        assert_eq!(sent.expect("it is open"), 6);
        let sent = poll_fn(|cx| stream.poll_write(cx, b"", b"six")).await;
        assert_eq!(sent.expect("it is open"), 3);
        let mut answer = Vec::with_capacity(4);
        assert_eq!(read(&stream, &mut answer).await.expect("it is open"), 4);
        assert_eq!(stream.peek(), Peek::Bytes, "the rest of the record");
        assert!(!stream.is_quiet());
        answer.reserve_exact(4);
        assert_eq!(read(&stream, &mut answer).await.expect("it is open"), 2);
        assert_eq!(answer, b"answer");
        stream.finish_sending();
        poll_fn(|cx| {
            if stream.poll_closed(cx) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        assert_eq!(stream.peek(), Peek::Closed);
        assert_eq!(read(&stream, &mut answer).await.expect("it is an end"), 0);
    });
}

/// A server sends tickets behind the handshake. They lie in the socket when the client has the connection.
#[test]
fn what_is_between_the_sessions_is_no_news() {
    let (sent, is_sent) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let serve = move |mut server: Server| {
        server.flush().expect("it is open");
        sent.send(()).expect("the test waits");
        let _ = may_go_on.recv();
        server.write_all(b"x").expect("it is open");
        sent.send(()).expect("the test waits");
        // It breaks off, without a word.
        let _ = may_go_on.recv();
    };
    with_server(&client(&Trust::Anybody), &[], serve, async |stream| {
        let stream = stream.expect("they agree");
        is_sent.recv().expect("it goes on");
        assert_eq!(stream.peek(), Peek::Nothing);
        assert!(stream.is_quiet());
        go_on.send(()).expect("it waits");
        is_sent.recv().expect("it goes on");
        assert_eq!(stream.peek(), Peek::Bytes);
        let mut one = Vec::with_capacity(1);
        assert_eq!(read(&stream, &mut one).await.expect("it is open"), 1);
        drop(go_on);
        let end = read(&stream, &mut Vec::with_capacity(1)).await;
        assert_eq!(
            end.expect_err("it was broken off").kind(),
            ErrorKind::UnexpectedEof
        );
    });
}

/// More than the socket holds: what a write leaves is flushed by whoever waits for the answer.
#[test]
fn what_was_written_arrives_while_the_answer_is_waited_for() {
    const BYTES: usize = 1 << 20;
    let serve = |mut server: Server| {
        let mut asked = vec![0; BYTES];
        server.read_exact(&mut asked).expect("it was sent");
        server.write_all(b"!").expect("it is open");
    };
    with_server(&client(&Trust::Anybody), &[], serve, async |stream| {
        let stream = stream.expect("they agree");
        let (bytes, mut sent) = (vec![7; BYTES], 0);
        while sent < BYTES {
            let count = poll_fn(|cx| stream.poll_write(cx, &bytes[sent..], &[])).await;
            sent += count.expect("it is open");
        }
        let readable = poll_fn(|cx| stream.poll_readable(cx)).await;
        readable.expect("it is open");
        let mut answer = Vec::with_capacity(8);
        assert_eq!(read(&stream, &mut answer).await.expect("it is open"), 1);
    });
}

#[test]
fn a_certificate_is_good_when_its_authority_is_trusted() {
    let stranger = Trust::File(certificate());
    with_server(&client(&stranger), &[], drop, async |stream| {
        stream.expect("it is in the file");
    });
    let elsewhere = Client::new("elsewhere", &stranger, &[]).expect("it is a name");
    with_server(&elsewhere, &[], drop, async |stream| {
        assert!(matches!(stream, Err(Error::Handshake(_))), "{stream:?}");
    });
}

#[test]
fn a_protocol_that_is_required_is_agreed_to() {
    let mut client = client(&Trust::Anybody);
    for is_required in [false, true] {
        client.is_protocol_required = is_required;
        for (protocols, is_agreed) in [
            (&[OFFERED][..], true),
            (&[], !is_required),
            (&[b"other"], false),
        ] {
            with_server(&client, protocols, drop, async |stream| {
                let is_refused = matches!(stream, Err(Error::NoCommonProtocol));
                assert_eq!(is_refused, !is_agreed, "{protocols:?}, {is_required}");
            });
        }
    }
}

#[test]
fn what_cannot_be_spoken_with_is_said() {
    let error = Client::new("no name", &Trust::Anybody, &[]).unwrap_err();
    assert!(matches!(error, Error::ServerName(_)), "{error}");
    let key = certificate().with_file_name("key.pem");
    for path in [key, certificate().with_file_name("missing.pem")] {
        let error = Client::new("localhost", &Trust::File(path), &[]).unwrap_err();
        assert!(matches!(error, Error::Certificates { .. }), "{error}");
    }
}
