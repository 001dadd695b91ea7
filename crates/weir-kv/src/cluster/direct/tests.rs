//! What a worker is answered, and what it leaves to the hub.

use super::*;
use crate::cell::Cell;
use crate::frame::Why;

/// A connection, its hub, and the client whose number is that of its request.
struct Tried {
    link: Link,
    at_hub: mpsc::UnboundedReceiver<Event>,
    told: std::sync::mpsc::Receiver<Answer>,
    tells: std::sync::mpsc::Sender<Answer>,
    _unsent: Unsent,
}

impl Tried {
    fn new() -> Self {
        let (hub, at_hub) = mpsc::unbounded_channel();
        let (tells, told) = std::sync::mpsc::channel();
        let (outbox, unsent) = outbox();
        let under_way = Arc::new(UnderWay {
            is_up: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            reads: Mutex::default(),
            hub,
            count: Arc::default(),
        });
        Self {
            link: Link {
                thread: std::thread::current().id(),
                node: 2,
                outbox,
                under_way,
            },
            at_hub,
            told,
            tells,
            _unsent: unsent,
        }
    }

    /// Whether a read is sent, and not left to the hub.
    fn asks(&self) -> bool {
        let under_way = &self.link.under_way;
        under_way.count.fetch_add(1, Ordering::AcqRel);
        let tells = self.tells.clone();
        let then = move |told: Result<Answer, _>| {
            let answer = told.expect("nothing else waits");
            tells.send(answer).expect("it waits");
            None
        };
        let client = Client::Part(Box::new(then));
        let key = Bytes::from_static(b"key");
        self.link.ask(1, Read { key, client }).is_ok()
    }

    /// How many are answered here, left to the hub, and counted as under way.
    fn counts(&mut self) -> (Vec<Answer>, usize, usize) {
        let told = self.told.try_iter().collect();
        let left = std::iter::from_fn(|| self.at_hub.try_recv().ok()).count();
        let counted = self.link.under_way.count.load(Ordering::Acquire);
        (told, left, counted)
    }
}

#[test]
fn what_is_no_answer_is_left_to_the_hub() {
    let mut tried = Tried::new();
    assert!(!tried.asks(), "nothing is heard of it yet");
    let under_way = Arc::clone(&tried.link.under_way);
    under_way.hear(PING_ID, Ok(Say::Pong(crate::frame::Presence::default())));
    assert!((0..6).all(|_| tried.asks()));
    let cell = Cell {
        version: crate::version::Version::default(),
        expires_ms: None,
        value: Some(Bytes::from_static(b"value")),
    };
    under_way.hear(1, Ok(Say::Found(Some(cell.clone()))));
    under_way.hear(2, Ok(Say::Found(None)));
    under_way.hear(3, Err(Lost::Silent));
    let told = [Some(cell), None].map(Answer::Found);
    let told = told.into_iter().chain([Answer::TooFew]).collect();
    assert_eq!(tried.counts(), (told, 0, 4));
    under_way.hear(4, Ok(Say::Refused(Why::Epoch, String::new())));
    under_way.hear(5, Err(Lost::Closed));
    // Nobody waits for these.
    under_way.hear(5, Ok(Say::Found(None)));
    under_way.hear(99, Ok(Say::Found(None)));
    assert_eq!(tried.counts(), (Vec::new(), 2, 4));
    drop(Ends(under_way));
    assert_eq!(tried.counts(), (Vec::new(), 1, 4));
    assert!(!tried.asks(), "it is over");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_longer_than_the_deadline() {
    let mut tried = Tried::new();
    let under_way = Arc::clone(&tried.link.under_way);
    under_way.hear(PING_ID, Ok(Say::Pong(crate::frame::Presence::default())));
    assert!(tried.asks());
    let late = tokio::time::timeout(DEADLINE.mul_f64(0.8), under_way.give_up_late());
    assert!(late.await.is_err());
    assert!(tried.asks());
    assert_eq!(tried.counts(), (Vec::new(), 0, 2));
    let late = tokio::time::timeout(2 * TICK, under_way.give_up_late());
    assert!(late.await.is_err());
    assert_eq!(tried.counts(), (vec![Answer::TooFew], 0, 1));
    let late = tokio::time::timeout(DEADLINE, under_way.give_up_late());
    assert!(late.await.is_err());
    assert_eq!(tried.counts(), (vec![Answer::TooFew], 0, 0));
    under_way.hear(1, Ok(Say::Found(None)));
    assert_eq!(tried.counts(), (Vec::new(), 0, 0));
}
