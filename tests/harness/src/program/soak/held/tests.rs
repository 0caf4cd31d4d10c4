use super::{Held, Sample, grown};

fn sample(second: u64, of: impl Fn(u64) -> u64) -> Sample {
    let held = Held { memory: 100 << 10, tasks: of(second), descriptors: 20, children: 2, disk: 1 << 20 };
    Sample { second, held, turns: 0, calls: 0, decisions: 0, faults: 0, stuck: 0 }
}

#[test]
fn what_grows_is_named_and_what_is_held_for_a_moment_or_warms_up_is_not() {
    type Row = (&'static str, fn(u64) -> u64, usize);
    let rows: [Row; 4] = [
        ("flat", |_| 50, 0),
        ("warms up", |second| if second < 20 { second } else { 20 }, 0),
        ("held for a moment", |second| if second % 7 == 0 { 500 } else { 50 }, 0),
        ("grows", |second| 50 + second, 1),
    ];
    for (what, of, wrong) in rows {
        let samples: Vec<_> = (0..60).map(|second| sample(second, of)).collect();
        assert_eq!(grown(&samples).len(), wrong, "{what}");
    }
}
