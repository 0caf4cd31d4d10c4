//! The last look at a call's arguments, whatever way it came.

use pilothouse_adapters::tool::{Function, Invocation};
use pilothouse_messages::call::CallOutcome::{Rejected, Succeeded};
use serde_json::json;

use super::super::toy::{House, Plan, Toy};

#[tokio::test(start_paused = true)]
async fn arguments_that_do_not_fit_are_refused_by_the_last_look_and_never_sent() {
    let toy = Toy::new();
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let run = |_: Invocation| async { Ok("yes".to_owned()) };
    let functions = vec![Function::new("try", "Tries.", &schema, run)];
    let house = House::of(Plan { functions, ..Plan::default() }, &[("toy", &toy)]).await;
    house.until_confirmed("toy").await;
    let rows = [(json!({"a": "1"}), Rejected), (json!({"a": 1}), Succeeded)];
    for (arguments, expected) in rows {
        for mut order in [house.order("toy"), house.function("try")] {
            order.arguments = (&arguments).into();
            let result = house.call(order).await.expect("a call does not panic");
            assert_eq!(result.outcome, expected, "{arguments}: {}", result.text());
            assert_eq!(result.text().contains("@param {integer} [params.a]"), expected == Rejected);
        }
    }
    assert_eq!(toy.counts()[2], 1, "only the good call was sent");
}
