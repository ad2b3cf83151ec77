use super::*;
use crate::limits::Bound;
use crate::protocol::Peer;
use crate::registry::Kind;

#[test]
fn nothing_is_encoded_for_who_has_ended() {
    let bound = Arc::new(Bound::default());
    bound.set(1000);
    let registry = Registry::new(bound);
    let local = crate::endpoint::Address::Unix("/x".into());
    let peer = Peer { id: 1, remote: local.clone(), local, since_ms: 0 };
    let entry = Entry::new(peer, Kind::Redis);
    let subscribers = Subscribers::from([(1, Arc::clone(&entry))]);
    let message = [7; 600];
    let encoded = || {
        let parts = [&b"pmessage"[..], b"*", b"channel", &message];
        let forms = Forms::new(&parts);
        assert_eq!(forms.push(&subscribers, &registry), 1);
        forms.encoded.iter().any(|form| form.get().is_some())
    };
    assert!(encoded(), "it has room");
    assert!(encoded() && entry.is_killed(), "the second is too much");
    assert!(!encoded(), "and the third is not made");
}
