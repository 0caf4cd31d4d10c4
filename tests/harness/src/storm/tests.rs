use super::{PROMISES, Plan, Seeds};

#[test]
fn every_promise_is_a_row_of_the_guarantees() {
    let page = include_str!("../../../../docs/guarantees.md");
    for promise in PROMISES {
        assert!(page.contains(&format!("| {promise} |")), "docs/guarantees.md has no row \"{promise}\"");
    }
}

#[test]
fn what_is_no_plan_and_no_range_is_refused_with_what_would_be_right() {
    let plan = "none".parse::<Plan>().expect_err("it is no plan").to_string();
    assert!(
        plan.starts_with("there is no plan \"none\": use one of dead-servers, flapping-servers"),
        "{plan}"
    );
    for text in ["", "7", "1..", "..3", "3..3", "4..2", "a..b", "-1..4"] {
        let error = text.parse::<Seeds>().expect_err(text).to_string();
        let words = "is no range of seeds: write FROM..TO, two numbers of which the second is larger";
        assert_eq!(error, format!("\"{text}\" {words}"));
    }
    assert_eq!("2..30".parse(), Ok(Seeds { from: 2, to: 30 }));
}
