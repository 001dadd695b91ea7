//! How two nodes make sure of each other: each proves that it knows the secret, without saying it, and that it is of the same cluster.
//!
//! ```text
//! asks     "weirkv01"  nonce (16)  length (1), its address
//! answers  "weirkv01"  nonce (16)
//! asks     HMAC-SHA-256 of "asks", both nonces, both addresses
//! answers  HMAC-SHA-256 of "answers", both nonces, both addresses, and which cluster it is of (8)
//! asks     which cluster it is of (8)
//! ```
//!
//! Whoever asks proves himself first, so a stranger gets nothing to try secrets on. A client says the address "client", and gives back
//! the cluster that it was told. What follows is neither encrypted nor signed.

use std::io;

use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

const MAGIC: &[u8; 8] = b"weirkv01";
const NONCE: usize = 16;
const PROOF: usize = 32;
const CLUSTER: usize = 8;

/// What a node knows of itself, to say hello.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own<'n> {
    pub(crate) address: &'n str,
    pub(crate) secret: &'n str,
    /// What tells its cluster from others.
    pub(crate) cluster: u64,
}

/// Says hello to the node at `to`.
pub(super) async fn ask<S>(stream: &mut S, own: Own<'_>, to: &str) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let unknown = "it does not take the secret, or does not know this node";
    let cluster = meet(stream, (own.address, own.secret), to, unknown).await?;
    if cluster != own.cluster.to_be_bytes() {
        return Err(stranger(
            "it has other nodes, replicas or placement in its configuration, or is of another cluster",
        ));
    }
    stream.write_all(&cluster).await
}

/// Says hello to the node at `to` as one that has the secret, and no data.
pub(crate) async fn ask_as_client<S>(stream: &mut S, secret: &str, to: &str) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let unknown = "it does not take the secret, or its own address is another one";
    let cluster = meet(stream, (CLIENT, secret), to, unknown).await?;
    stream.write_all(&cluster).await
}

/// Both prove that they have the secret; the cluster of the other one. `unknown` is what it means when that ends it.
async fn meet<S>(
    stream: &mut S,
    (address, secret): (&str, &str),
    to: &str,
    unknown: &'static str,
) -> io::Result<[u8; CLUSTER]>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let nonce = nonce()?;
    let own = [&[address.len() as u8], address.as_bytes()].concat();
    stream
        .write_all(&[&MAGIC[..], &nonce, &own].concat())
        .await?;
    let mut head = [0; MAGIC.len() + NONCE];
    stream.read_exact(&mut head).await?;
    let (magic, theirs) = head.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(stranger("it is no node"));
    }
    let said = said(&nonce, theirs, address, to);
    stream.write_all(&prove("asks", &said, secret)).await?;
    let (mut proof, mut cluster) = ([0; PROOF], [0; CLUSTER]);
    let answered = stream.read_exact(&mut proof).await;
    answered.map_err(|_| stranger(unknown))?;
    stream.read_exact(&mut cluster).await?;
    if !is_proof("answers", &[&said, &cluster[..]].concat(), secret, &proof) {
        return Err(stranger("it has another secret"));
    }
    Ok(cluster)
}

/// The address of whoever is no node. It is of any cluster.
const CLIENT: &str = "client";

/// Who says hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The node at this address.
    Node(String),
    /// One that has the secret, and no data.
    Client,
}

/// Answers a node that says hello, if it is one of those that are known.
pub(crate) async fn answer<S>(
    stream: &mut S,
    own: Own<'_>,
    is_known: impl Fn(&str) -> bool,
) -> io::Result<Caller>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut head = [0; MAGIC.len() + NONCE + 1];
    stream.read_exact(&mut head).await?;
    let (magic, rest) = head.split_at(MAGIC.len());
    let (theirs, length) = rest.split_at(NONCE);
    let mut address = vec![0; usize::from(length[0])];
    stream.read_exact(&mut address).await?;
    let address = String::from_utf8(address).map_err(|_| stranger("it is no node"))?;
    let is_client = address == CLIENT;
    if magic != MAGIC || !(is_client || is_known(&address)) {
        return Err(stranger("it is no node"));
    }
    let nonce = nonce()?;
    let said = said(theirs, &nonce, &address, own.address);
    stream.write_all(&[&MAGIC[..], &nonce].concat()).await?;
    let mut proof = [0; PROOF];
    stream.read_exact(&mut proof).await?;
    if !is_proof("asks", &said, own.secret, &proof) {
        return Err(stranger("it has another secret"));
    }
    let cluster = own.cluster.to_be_bytes();
    let proof = prove("answers", &[&said, &cluster[..]].concat(), own.secret);
    stream.write_all(&[&proof, &cluster[..]].concat()).await?;
    let mut theirs = [0; CLUSTER];
    stream.read_exact(&mut theirs).await?;
    if is_client {
        Ok(Caller::Client)
    } else if theirs == cluster {
        Ok(Caller::Node(address))
    } else {
        Err(stranger(
            "it has other nodes, replicas or placement in its configuration, or is of another cluster",
        ))
    }
}

fn nonce() -> io::Result<[u8; NONCE]> {
    let mut nonce = [0; NONCE];
    let filled = SystemRandom::new().fill(&mut nonce);
    filled.map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(nonce)
}

/// What both prove that they have seen.
fn said(asks: &[u8], answers: &[u8], from: &str, to: &str) -> Vec<u8> {
    let length = [from.len() as u8];
    [asks, answers, &length, from.as_bytes(), to.as_bytes()].concat()
}

fn prove(role: &str, said: &[u8], secret: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let said = [role.as_bytes(), said].concat();
    hmac::sign(&key, &said).as_ref().to_vec()
}

fn is_proof(role: &str, said: &[u8], secret: &str, proof: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let said = [role.as_bytes(), said].concat();
    hmac::verify(&key, &said, proof).is_ok()
}

fn stranger(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What each says when they meet: nothing if all is well.
    fn meet(secrets: [&str; 2], clusters: [u64; 2], known: &'static str) -> [Option<String>; 2] {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(async {
            let (mut one, mut other) = tokio::io::duplex(1024);
            let own = |index: usize, address| Own {
                address,
                secret: secrets[index],
                cluster: clusters[index],
            };
            let asks = async {
                let asked = ask(&mut one, own(0, "a:1"), "b:1").await;
                drop(one);
                asked.err().map(|error| error.to_string())
            };
            let answers = async {
                let is_known = |address: &str| address == known;
                let answered = answer(&mut other, own(1, "b:1"), is_known).await;
                drop(other);
                answered.err().map(|error| error.to_string())
            };
            let (asked, answered) = tokio::join!(asks, answers);
            [asked, answered]
        })
    }

    #[test]
    fn nodes_with_the_same_secret_in_the_same_cluster_know_each_other() {
        assert_eq!(meet(["s", "s"], [1, 1], "a:1"), [None, None]);
        assert_eq!(meet(["", ""], [1, 1], "a:1"), [None, None]);
        for (secrets, clusters, known, told) in [
            (["s", "t"], [1, 1], "a:1", "it has another secret"),
            (["s", "s"], [1, 1], "c:1", "it is no node"),
            (["s", "s"], [1, 2], "a:1", ""),
        ] {
            let [asked, answered] = meet(secrets, clusters, known);
            assert!(asked.is_some(), "{secrets:?} {clusters:?} {known}");
            assert!(answered.is_some_and(|answered| answered.contains(told)));
        }
        let [asked, _] = meet(["s", "s"], [1, 2], "a:1");
        assert_eq!(
            asked.as_deref(),
            Some(
                "it has other nodes, replicas or placement in its configuration, or is of another cluster"
            )
        );
    }

    /// A client is of no cluster, and has to know the secret and where the node is all the same.
    #[test]
    fn a_client_is_known_by_the_secret_alone() {
        let met = |secret: &'static str, to: &'static str| {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            runtime.expect("a runtime").block_on(async {
                let (mut one, mut other) = tokio::io::duplex(1024);
                let asks = async {
                    let asked = ask_as_client(&mut one, secret, to).await;
                    drop(one);
                    asked
                };
                let answers = async {
                    let own = Own {
                        address: "b:1",
                        secret: "s",
                        cluster: 7,
                    };
                    let answered = answer(&mut other, own, |_| false).await;
                    drop(other);
                    answered
                };
                tokio::join!(asks, answers)
            })
        };
        let (asked, answered) = met("s", "b:1");
        assert!(asked.is_ok());
        assert_eq!(answered.ok(), Some(Caller::Client));
        for (secret, to) in [("t", "b:1"), ("s", "c:1")] {
            let (asked, answered) = met(secret, to);
            let told = asked.expect_err("it is refused").to_string();
            assert!(told.contains("does not take the secret"), "{told}");
            assert!(answered.is_err());
        }
    }

    proptest! {
        /// Whatever a stranger says, and wherever it ends, it is refused.
        #[test]
        fn a_stranger_is_refused_whatever_it_says(
            said in proptest::collection::vec(any::<u8>(), 0..200),
            begins_well in any::<bool>(),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let answered = runtime.expect("a runtime").block_on(async {
                let (mut one, mut other) = tokio::io::duplex(1024);
                let begin = [&MAGIC[..], &[0; NONCE], &[3], b"a:1"].concat();
                let said = [if begins_well { &begin[..] } else { &[] }, &said].concat();
                one.write_all(&said).await.expect("there is room");
                one.shutdown().await.expect("it is open");
                let own = Own {
                    address: "b:1",
                    secret: "s",
                    cluster: 1,
                };
                answer(&mut other, own, |address| address == "a:1").await
            });
            prop_assert!(answered.is_err());
        }
    }
}
