use std::time::Duration;

use pilothouse_messages::id::ServerId;

use super::{Found, end, mark, runs, started_in};

fn server() -> ServerId {
    ServerId::new("s").unwrap()
}

#[test]
fn the_time_of_a_start_is_read_whatever_the_process_is_called() {
    let numbers = (4..=25).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
    for (stat, expected) in [
        (format!("7 (sh) S {numbers}"), Some(22)),
        (format!("7 (a) b (c)) S {numbers}"), Some(22)),
        (format!("7 (sh) Z {numbers}"), None),
        ("7 (sh) S 4".to_owned(), None),
        (String::new(), None),
    ] {
        assert_eq!(started_in(&stat), expected, "{stat}");
    }
}

/// A process that leads its own group, and does this.
#[cfg(target_os = "linux")]
fn shell(script: &str) -> std::process::Child {
    use std::os::unix::process::CommandExt;
    std::process::Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap()
}

#[cfg(all(target_os = "linux", feature = "mcp"))]
#[tokio::test]
async fn only_the_very_process_is_ended_never_one_that_has_its_id() {
    let grace = Duration::from_millis(300);
    let mut stubborn = shell("trap '' TERM; while :; do sleep 1; done");
    let mut polite = shell("sleep 1000");
    let marked = |child: &std::process::Child| mark(&server(), child.id()).unwrap();
    let (stubborn_mark, polite_mark) = (marked(&stubborn), marked(&polite));
    // The trap has to stand first.
    tokio::time::sleep(Duration::from_millis(200)).await;
    for stranger in [
        super::ProcessMark { started: polite_mark.started + 1, ..polite_mark.clone() },
        super::ProcessMark { boot: "another".to_owned(), ..polite_mark.clone() },
    ] {
        assert_eq!(end(&stranger, grace).await, Found::Gone);
        assert!(runs(&polite_mark), "a stranger is left alone");
    }
    assert_eq!(end(&polite_mark, grace).await, Found::Ended);
    assert_eq!(end(&stubborn_mark, grace).await, Found::Killed);
    assert!(polite.wait().is_ok() && stubborn.wait().is_ok());
    assert!(!runs(&polite_mark) && !runs(&stubborn_mark));
    assert_eq!(end(&polite_mark, grace).await, Found::Gone);
}
