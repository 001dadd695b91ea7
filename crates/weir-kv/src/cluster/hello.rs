//! How two nodes make sure of each other: each proves that it knows the secret, without saying it.
//!
//! ```text
//! asks     "weirkv01"  nonce (16)  length (1), its address
//! answers  "weirkv01"  nonce (16)  HMAC-SHA-256 of "answers", both nonces, both addresses
//! asks     HMAC-SHA-256 of "asks", both nonces, both addresses
//! ```
//!
//! What follows is neither encrypted nor signed.

use std::io;

use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

const MAGIC: &[u8; 8] = b"weirkv01";
const NONCE: usize = 16;
const PROOF: usize = 32;

/// Says hello to the node at `to`.
pub(super) async fn ask<S>(stream: &mut S, own: &str, to: &str, secret: &str) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let nonce = nonce()?;
    let address = [&[own.len() as u8], own.as_bytes()].concat();
    stream
        .write_all(&[&MAGIC[..], &nonce, &address].concat())
        .await?;
    let mut answer = [0; MAGIC.len() + NONCE + PROOF];
    stream.read_exact(&mut answer).await?;
    let (magic, rest) = answer.split_at(MAGIC.len());
    let (theirs, proof) = rest.split_at(NONCE);
    let said = said(&nonce, theirs, own, to);
    if magic != MAGIC || !is_proof("answers", &said, secret, proof) {
        return Err(stranger());
    }
    stream.write_all(&prove("asks", &said, secret)).await
}

/// Answers a node that says hello, if it is one of those that are known.
pub(super) async fn answer<S>(
    stream: &mut S,
    own: &str,
    secret: &str,
    is_known: impl Fn(&str) -> bool,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut head = [0; MAGIC.len() + NONCE + 1];
    stream.read_exact(&mut head).await?;
    let (magic, rest) = head.split_at(MAGIC.len());
    let (theirs, length) = rest.split_at(NONCE);
    let mut address = vec![0; usize::from(length[0])];
    stream.read_exact(&mut address).await?;
    let address = String::from_utf8(address).map_err(|_| stranger())?;
    if magic != MAGIC || !is_known(&address) {
        return Err(stranger());
    }
    let nonce = nonce()?;
    let said = said(theirs, &nonce, &address, own);
    let proof = prove("answers", &said, secret);
    stream
        .write_all(&[&MAGIC[..], &nonce, &proof].concat())
        .await?;
    let mut proof = [0; PROOF];
    stream.read_exact(&mut proof).await?;
    if is_proof("asks", &said, secret, &proof) {
        Ok(())
    } else {
        Err(stranger())
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

fn stranger() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "not a node of this cluster",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What both say when they meet.
    fn meet(secrets: [&str; 2], known: &'static str) -> [bool; 2] {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(async {
            let (mut one, mut other) = tokio::io::duplex(1024);
            let asks = async {
                let asked = ask(&mut one, "a:1", "b:1", secrets[0]).await.is_ok();
                drop(one);
                asked
            };
            let answers = async {
                let is_known = |address: &str| address == known;
                let answered = answer(&mut other, "b:1", secrets[1], is_known)
                    .await
                    .is_ok();
                drop(other);
                answered
            };
            let (asked, answered) = tokio::join!(asks, answers);
            [asked, answered]
        })
    }

    #[test]
    fn nodes_with_the_same_secret_know_each_other() {
        assert_eq!(meet(["s", "s"], "a:1"), [true, true]);
        assert_eq!(meet(["", ""], "a:1"), [true, true]);
        assert_eq!(meet(["s", "t"], "a:1"), [false, false]);
        assert_eq!(meet(["s", "s"], "c:1"), [false, false]);
    }
}
