use std::collections::BTreeMap;

use serde::Serialize;

use super::{Chain, Format, RECORD_BYTES_MAX};
use crate::digest::Digest;
use crate::error::StoreError;

const PLAIN: Format = Format { keyspace: "plain", version: 2, chain: Chain::None };
const LINKED: Format = Format { keyspace: "linked", version: 1, chain: Chain::Linked };

#[test]
fn a_record_reads_back_with_its_sequence_and_predecessor() {
    let before = Digest([7; 32]);
    let bytes = LINKED.encode(9, before, &("text".to_owned(), 5u32)).unwrap();
    let record = LINKED.decode::<(String, u32)>(&bytes).unwrap();
    assert_eq!((record.sequence, record.previous, record.payload), (9, Some(before), ("text".to_owned(), 5)));
}

#[test]
fn every_cut_and_every_flipped_bit_is_damage_never_a_panic() {
    let bytes = PLAIN.encode(1, Digest([0; 32]), &vec!["some text".to_owned(); 3]).unwrap();
    for length in 0..bytes.len() {
        assert!(
            matches!(PLAIN.decode::<Vec<String>>(&bytes[..length]), Err(StoreError::Damaged { .. })),
            "cut {length}"
        );
    }
    for bit in 0..bytes.len() * 8 {
        let mut rotten = bytes.clone();
        rotten[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(PLAIN.decode::<Vec<String>>(&rotten), Err(StoreError::Damaged { .. })), "bit {bit}");
    }
}

#[test]
fn a_newer_record_is_named_and_not_skipped() {
    let newer = Format { version: 3, ..PLAIN };
    let bytes = newer.encode(1, Digest([0; 32]), &1u8).unwrap();
    let expected = StoreError::NewerFormat { keyspace: "plain".into(), found: 3, known: 2 };
    assert_eq!(PLAIN.decode::<u8>(&bytes), Err(expected));
}

#[test]
fn a_payload_that_cannot_be_written_is_refused_with_the_true_reason() {
    /// Its members are not counted before they are written.
    #[derive(Serialize)]
    struct Uncounted {
        #[serde(flatten)]
        members: BTreeMap<String, u8>,
    }
    let limit = usize::try_from(RECORD_BYTES_MAX).unwrap();
    let expected = StoreError::TooLarge { what: "a record", bytes: limit + 8, limit };
    assert_eq!(PLAIN.encode(1, Digest([0; 32]), &"x".repeat(limit)), Err(expected));
    let refused = PLAIN.encode(1, Digest([0; 32]), &Uncounted { members: BTreeMap::new() });
    assert!(
        matches!(refused, Err(StoreError::Io { reason }) if reason.starts_with("a record of plain cannot"))
    );
}
