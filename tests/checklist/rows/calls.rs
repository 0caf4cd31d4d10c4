//! The lines about calls: invoking, scripts, the gate, repair, names and lists.

use super::Answer::{Beyond, So, Without};
use super::Row;

const REGISTRY: &str = "rules/src/registry/tests.rs";
const POLICY: &str = "rules/src/registry/policy/tests.rs";
const SHOWN: &str = "tests/behaviour/surface.rs";
const META: &str = "rules/src/meta/tests.rs";
const ASKED: &str = "rules/src/meta/request/tests.rs";
const TURN: &str = "tests/behaviour/meta.rs";
const EXEC: &str = "tests/behaviour/exec.rs";
const ENGINE: &str = "adapters/src/exec/quickjs/tests.rs";
const NESTED: &str = "rules/src/topic/tests/nested.rs";
const GATE: &str = "rules/src/gate/tests.rs";
const REPAIR: &str = "rules/src/arguments/repair/tests.rs";
const NAMES: &str = "rules/src/name/tests.rs";
const LEGACY: &str = "rules/src/name/legacy/tests.rs";

pub(crate) const CALLS: &[Row] = &[
    // tool_invoke.
    (
        "invoke",
        "arguments reach the tool unchanged, none are an empty object",
        Beyond("slips of the form are mended where the result is what the schema asks for"),
        &[(META, &["arguments_are_taken_from_where_a_model_puts_them_and_never_lost"])],
    ),
    (
        "invoke",
        "refused: not registered, out of reach, without anything that runs it, always asking, not inspected, wrong arguments; in this order",
        Beyond("the same checks in the same order where a tool that is not shown is called by its own name"),
        &[
            (META, &["an_invocation_is_checked_in_order_and_refused_with_the_first_fault"]),
            (ASKED, &["a_tool_that_is_not_shown_passes_the_checks_of_tool_invoke_also_by_its_own_name"]),
        ],
    ),
    (
        "invoke",
        "a refusal for want of inspection shows the signature and lets the next try pass, once",
        So,
        &[(TURN, &["a_tool_that_was_not_inspected_is_refused_once_with_its_signature"])],
    ),
    (
        "invoke",
        "wrong arguments are refused with the tool's name and its signature",
        Beyond("the original schema is the measure, and the words say where and what"),
        &[(TURN, &["slips_in_arguments_are_mended_and_wrong_ones_are_refused_with_the_signature"])],
    ),
    (
        "invoke",
        "defaults of the schema are filled in",
        Beyond("nothing is filled in: a server knows its defaults, and a card shows what is sent"),
        &[(REPAIR, &["nothing_is_guessed"])],
    ),
    (
        "invoke",
        "the inner tool's own call id and output",
        Beyond(
            "the call is the real tool's in card, events and records; the history keeps what the model wrote",
        ),
        &[(TURN, &["an_invoked_tool_asks_on_a_card_of_its_own_and_the_history_keeps_the_models_name"])],
    ),
    (
        "invoke",
        "its schema keeps the arguments open",
        So,
        &[(META, &["the_bytes_of_the_meta_tools_are_fixed_and_sorted"])],
    ),
    (
        "invoke",
        "no alias, legacy name or meta tool passes a gate",
        Beyond("a property over all paths, which also finds no refusal that names a way that is not there"),
        &[(
            ASKED,
            &["no_path_runs_a_tool_without_its_decision_and_no_refusal_names_a_way_that_there_is_not"],
        )],
    ),
    // tool_exec.
    (
        "exec",
        "what a script returns is its result, and its lines are kept to a bound",
        So,
        &[(
            ENGINE,
            &[
                "a_script_returns_json_and_what_it_logged",
                "a_flood_is_cut_and_a_script_that_calls_too_often_is_stopped",
            ],
        )],
    ),
    (
        "exec",
        "tools are called by name; unknown, forbidden and asking ones are refused",
        So,
        &[(EXEC, &["what_a_script_may_not_call_is_refused_with_words_and_never_becomes_a_card"])],
    ),
    (
        "exec",
        "calls side by side keep their order, and both outcomes can be had",
        Beyond("with the language's own `Promise.all` and `allSettled`, within the places of the topic"),
        &[(
            ENGINE,
            &["a_script_calls_tools_and_gets_data_text_or_an_error", "no_more_calls_run_at_once_than_may"],
        )],
    ),
    (
        "exec",
        "a call that nobody waited for is waited for, and its failure is the script's",
        So,
        &[(ENGINE, &["a_script_calls_tools_and_gets_data_text_or_an_error"])],
    ),
    (
        "exec",
        "time ends a script; a stop ends it and its calls",
        So,
        &[
            (
                ENGINE,
                &[
                    "a_hostile_script_ends_within_its_bounds",
                    "a_cancelled_script_ends_at_once_with_its_calls",
                ],
            ),
            (EXEC, &["a_stop_ends_a_script_with_the_calls_that_it_has_made"]),
        ],
    ),
    (
        "exec",
        "time does not run while a card is open",
        Without("a script cannot wait for a person, so none of its calls opens a card"),
        &[],
    ),
    (
        "exec",
        "an engine that gives up is an error",
        So,
        &[(
            ENGINE,
            &["a_script_that_is_stuck_in_the_engine_is_answered_in_time_and_keeps_only_its_own_place"],
        )],
    ),
    (
        "exec",
        "ids of inner calls follow from the outer one",
        Beyond("and each is recorded below it: intent, sent, one result, also over a crash"),
        &[
            (
                NESTED,
                &["each_call_of_a_script_is_recorded_once_with_one_result_and_late_news_change_nothing"],
            ),
            (EXEC, &["a_crash_in_a_script_leaves_each_call_with_what_is_known_of_it_and_runs_none_again"]),
        ],
    ),
    (
        "exec",
        "pictures are handed on beside the result",
        Without("a script gets text and data; a picture's tool is called directly"),
        &[],
    ),
    // The gate.
    (
        "gate",
        "a predicate that says no, says yes, or fails",
        Beyond(
            "static needs stand on the entry; deny, guard, grant, mode and classifier are asked in one order",
        ),
        &[(
            GATE,
            &[
                "deny_goes_before_ask_before_grant_before_mode_and_what_is_unheard_asks",
                "effect_and_mode_decide_where_no_other_layer_speaks",
            ],
        )],
    ),
    // Repair.
    (
        "repair",
        "an unknown tool asks no model",
        So,
        &[(ASKED, &["a_call_comes_to_a_tool_an_answer_or_words_whatever_name_it_has"])],
    ),
    (
        "repair",
        "text that is encoded twice, and a wrapper named arguments, are taken off without a model",
        So,
        &[(REPAIR, &["a_slip_of_the_form_is_mended_where_the_result_is_what_the_schema_asks_for"])],
    ),
    (
        "repair",
        "the wrapper stays where the tool has such a parameter",
        So,
        &[(REPAIR, &["a_wrapper_stays_where_the_tool_has_such_a_parameter"])],
    ),
    (
        "repair",
        "else one round, whose answer has to fit; a failure leaves the refusal",
        Beyond("a port of the embedder's, off by default, at most 10 s"),
        &[(TURN, &["a_repair_is_asked_once_and_what_it_gives_has_to_fit"])],
    ),
    (
        "repair",
        "a schema that cannot be used repairs nothing",
        Beyond("and keeps no tool from being called; its server's view names it"),
        &[
            (REPAIR, &["arguments_that_nobody_can_check_are_taken_as_an_object"]),
            (
                SHOWN,
                &["a_tool_whose_arguments_are_not_checked_is_named_in_its_servers_view_until_it_is_mended"],
            ),
        ],
    ),
    // Names.
    (
        "names",
        "wire names, slugs and digests as the vectors say; other ids never collide",
        So,
        &[
            (
                NAMES,
                &[
                    "wire_names_agree_with_every_golden_row_and_romanised_ones_in_all_but_the_readable_part",
                    "camel_case_agrees_with_every_golden_row",
                ],
            ),
            (REGISTRY, &["servers_with_the_same_tools_and_display_name_never_collide"]),
        ],
    ),
    (
        "names",
        "any input is safe, bounded and always the same",
        So,
        &[(NAMES, &["any_three_texts_make_a_name_that_every_provider_accepts"])],
    ),
    (
        "names",
        "a rename changes the readable part only, and a stored name stays",
        So,
        &[
            (NAMES, &["a_renamed_server_changes_the_readable_part_only"]),
            (REGISTRY, &["a_restored_name_is_used_as_it_was_stored"]),
        ],
    ),
    (
        "names",
        "legacy names and their parts as the vectors say",
        Beyond("understood in rules only, never made, and one that could mean several tools means all"),
        &[
            (
                LEGACY,
                &[
                    "legacy_names_agree_with_every_golden_row",
                    "the_parts_of_a_legacy_name_agree_with_every_golden_row",
                ],
            ),
            (POLICY, &["a_rule_means_every_tool_that_it_could_mean"]),
        ],
    ),
    // Lists.
    (
        "lists",
        "raw name, id, legacy id and wildcard each deny; another server's do not; case counts",
        So,
        &[(POLICY, &["deny_lists_agree_with_the_golden_rows_whose_names_exist_here"])],
    ),
    (
        "lists",
        "a forced tool asks; a denied one is not there at all",
        So,
        &[
            (GATE, &["deny_goes_before_ask_before_grant_before_mode_and_what_is_unheard_asks"]),
            (SHOWN, &["a_tool_on_a_topics_deny_list_is_neither_shown_nor_called"]),
        ],
    ),
    (
        "lists",
        "old rules find the tools that they meant, unknown ones stay, ambiguous ones mean all",
        Beyond("and those that mean none are told in the server's view"),
        &[
            (POLICY, &["a_rule_outlives_the_renaming_of_its_server", "rules_that_match_nothing_are_told"]),
            (SHOWN, &["a_servers_lists_say_which_of_its_tools_there_are"]),
        ],
    ),
];
