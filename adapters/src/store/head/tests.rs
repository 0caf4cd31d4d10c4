use super::*;

#[test]
fn a_head_keeps_its_bytes_and_one_that_is_none_is_damaged() {
    let head = Head {
        epoch: 3,
        checkpoint: TurnId(40),
        kept_from: 7,
        used: Used { turn: TurnId(1), message: MessageId(2) },
        presence: Present::Removed,
    };
    let mut bytes = Vec::new();
    for number in [3u64, 40, 7, 1, 2] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.push(1);
    assert_eq!(head.to_bytes(), bytes);
    assert_eq!(Head::parse(&bytes), Ok(head));
    let young = Head { epoch: 9, ..Head::default() };
    assert_eq!(Head::parse(&young.to_bytes()), Ok(young));
    assert_eq!(Head::parse(&9u64.to_be_bytes()), Ok(young), "the first version wrote the epoch alone");
    for wrong in [
        &b""[..],
        &b"1234567"[..],
        &bytes[..40],
        &[&bytes[..40], &[2]].concat(),
        &[&bytes[..], &[0]].concat(),
    ] {
        assert!(matches!(Head::parse(wrong), Err(StoreError::Damaged { .. })), "{wrong:?}");
    }
}
