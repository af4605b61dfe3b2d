//! Slow lookups, many lookups, and addresses of this machine.

use super::*;
use tokio::sync::Notify;

/// A resolver that does not answer until released, and counts pending lookups.
#[derive(Default)]
struct Slow {
    asked: AtomicUsize,
    answer: Notify,
}

impl Resolve for Slow {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.asked.fetch_add(1, Relaxed);
        Box::pin(async move {
            self.answer.notified().await;
            Err(io::Error::other("no such name"))
        })
    }
}

/// Returns a call with its own component.
fn slow_net(slow: &Arc<Slow>) -> Net {
    let resolver: Arc<dyn Resolve> = Arc::clone(slow) as _;
    let mut net = Net::new(HttpGrant::new(egress(&["http://*"], &[])).with_resolver(resolver));
    net.outbound.requests = 100;
    net
}

/// Starts this many requests at once.
fn ask(net: &Net, requests: usize) -> Vec<tokio::task::JoinHandle<Option<String>>> {
    let begin = |number| {
        let body = Full::new(Bytes::new()).map_err(Error::from).boxed_unsync();
        let request = http::Request::get(format!("http://{number}.test/")).body(body).unwrap();
        let exchange = net.outbound.admit(request, net.options).unwrap();
        tokio::spawn(async move { exchange.run().await.err().map(|why| why.to_string()) })
    };
    (0..requests).map(begin).collect()
}

async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn z20_lookups_are_few_at_once_of_a_call_of_a_component_and_in_all() {
    let slow = Arc::new(Slow::default());
    let one = slow_net(&slow);
    let _asking = ask(&one, 8);
    settle().await;
    assert_eq!(slow.asked.load(Relaxed), 4, "of one call");
    // Other calls of the same component.
    for _ in 0..3 {
        let again = slow_net(&slow);
        let again = Net {
            outbound: CallEgress { grant: Arc::clone(&one.outbound.grant), ..again.outbound },
            options: None,
        };
        let _asking = ask(&again, 8);
    }
    settle().await;
    assert_eq!(slow.asked.load(Relaxed), 8, "of one component");
    for _ in 0..8 {
        let _asking = ask(&slow_net(&slow), 8);
    }
    settle().await;
    assert_eq!(slow.asked.load(Relaxed), 16, "in all");
}

#[tokio::test]
async fn z20_a_lookup_that_is_given_up_keeps_its_place_until_it_ends() {
    let slow = Arc::new(Slow::default());
    let net = slow_net(&slow).impatient();
    let first = ask(&net, 4);
    for asked in first {
        assert_eq!(asked.await.unwrap(), Some(Error::DnsTimeout.to_string()));
    }
    // The callers have stopped waiting, but the lookups are still in progress.
    let net = Net { options: None, ..net };
    let next = ask(&net, 1);
    settle().await;
    assert_eq!(slow.asked.load(Relaxed), 4);
    slow.answer.notify_one();
    settle().await;
    assert_eq!(slow.asked.load(Relaxed), 5);
    slow.answer.notify_waiters();
    for asked in next {
        assert_eq!(asked.await.unwrap(), Some(resolve::unknown().to_string()));
    }
}

#[tokio::test]
async fn z23_an_address_of_this_machine_is_not_reached_though_it_is_global() {
    let names = Names::of("rebound.test", &[&["93.184.216.34"]]);
    let resolver: Arc<dyn Resolve> = Arc::clone(&names) as _;
    let mut grant = HttpGrant::new(egress(&["http://*"], &[])).with_resolver(resolver);
    grant.connector.is_local = |_| Ok(true);
    let came = Net::new(grant).get("http://rebound.test/").await;
    assert_eq!(came.error(), Error::DestinationIpProhibited.to_string());
    let denied = came.ledger.denied();
    assert!(denied[0].contains("93.184.216.34 is an address of this machine"), "{denied:?}");
}

#[tokio::test]
async fn z23_an_address_that_cannot_be_looked_at_is_not_connected_to() {
    let mut grant = HttpGrant::new(egress(&["http://93.184.216.34/"], &[]));
    grant.connector.is_local = |_| Err(io::Error::other("no descriptors"));
    let came = Net::new(grant).get("http://93.184.216.34/").await;
    assert_eq!(came.error(), Error::DestinationUnavailable.to_string());
}
