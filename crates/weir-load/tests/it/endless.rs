//! HTTP/2 bodies that come faster than they are read and never end: they keep neither their own deadline nor the other
//! requests of the thread waiting.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use h2::server::SendResponse;
use http::{Request, Response};
use tokio::net::{TcpListener, TcpStream};

use weir_load::Plan;
use weir_load::outcome::Outcome;
use weir_load::plan::{End, Protocol};

#[test]
fn an_endless_body_times_out_beside_others() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let small = socket2::SockRef::from(&listener).set_tcp_mss(1400);
    small.expect("segments may be small");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    // It ends with the process of the tests.
    std::thread::spawn(move || serve(listener));
    let report = weir_load::run(plan(address), &AtomicBool::new(false), |_| {});
    let outcomes = report.expect("the server answers").outcomes;
    let count = |outcome| outcomes.count(outcome);
    assert_eq!((count(Outcome::Success), count(Outcome::Timeout)), (499, 1));
}

fn plan(address: SocketAddr) -> Plan {
    Plan {
        protocol: Protocol::Http2 { streams: 2 },
        end: End::Requests(500),
        ..crate::plan(address)
    }
}

fn serve(listener: std::net::TcpListener) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        listener
            .set_nonblocking(true)
            .expect("a socket can be made so");
        let listener = TcpListener::from_std(listener).expect("the socket is new");
        loop {
            let (stream, _) = listener.accept().await.expect("a connection comes");
            tokio::spawn(answer_all(stream));
        }
    });
}

async fn answer_all(stream: TcpStream) {
    let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(answer(request, respond));
    }
}

async fn answer(request: Request<h2::RecvStream>, mut respond: SendResponse<Bytes>) {
    let is_endless = request.uri().path() == "/0";
    let Ok(mut body) = respond.send_response(Response::new(()), !is_endless) else {
        return;
    };
    if !is_endless {
        return;
    }
    let much = Bytes::from(vec![b'x'; 1 << 16]);
    loop {
        body.reserve_capacity(much.len());
        match std::future::poll_fn(|cx| body.poll_capacity(cx)).await {
            Some(Ok(capacity)) => {
                let data = much.slice(..capacity.min(much.len()));
                if body.send_data(data, false).is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}
