//! The lines, in our words, and their answers; here those about registry, exposition, search and inspection.

use super::named::Tests;

#[path = "rows/calls.rs"]
mod calls;
pub(crate) use calls::CALLS;

/// How a line is answered.
pub(crate) enum Answer {
    /// As it asks.
    So,
    /// With more, or otherwise on purpose.
    Beyond(&'static str),
    /// There is no such thing here.
    Without(&'static str),
}

use Answer::{Beyond, So, Without};

const REGISTRY: &str = "rules/src/registry/tests.rs";
const FUNCTIONS: &str = "tests/behaviour/functions.rs";
const DEFERRAL: &str = "rules/src/deferral/tests.rs";
const SURFACE: &str = "rules/src/surface/tests.rs";
const SECTION: &str = "rules/src/surface/section/tests.rs";
const SHOWN: &str = "tests/behaviour/surface.rs";
const SEARCH: &str = "rules/src/search/tests.rs";
const META: &str = "rules/src/meta/tests.rs";
const ASKED: &str = "rules/src/meta/request/tests.rs";
const TURN: &str = "tests/behaviour/meta.rs";

/// Part, line, answer, tests.
pub(crate) type Row = (&'static str, &'static str, Answer, &'static [Tests]);

const NO_BUILDER: &str =
    "a tool's definition is one value with one fingerprint; nothing makes another one for a request";
const NATIVE: &str =
    "the surface is ours for every provider; a provider's own search over deferred tools is not used";

pub(crate) const SHOWING: &[Row] = &[
    // Registry.
    (
        "registry",
        "a name that comes again replaces its entry",
        Beyond("within one source the last stays; another source's name is a typed error"),
        &[(
            REGISTRY,
            &[
                "of_two_functions_with_one_name_the_last_stays",
                "a_function_is_refused_for_its_name_or_its_schema",
            ],
        )],
    ),
    (
        "registry",
        "taking a tool out says whether it was there",
        Beyond("a server's tools go with its listing and keep their names; functions are fixed at the start"),
        &[(REGISTRY, &["a_name_is_given_once_and_survives_rename_withdrawal_and_return"])],
    ),
    (
        "registry",
        "tools are in the order of their names, whatever order they came in",
        So,
        &[(REGISTRY, &["the_table_depends_on_what_is_offered_last_and_not_on_the_way_there"])],
    ),
    (
        "registry",
        "a namespace is asked for by key or label, exactly",
        So,
        &[(SEARCH, &["a_namespace_is_asked_for_by_its_label_or_its_key_exactly"])],
    ),
    (
        "registry",
        "a query ignores case and looks at name, description and label, not at the opaque key",
        Beyond(
            "also at parameters, values and other words for the same; weighed and ranked instead of filtered",
        ),
        &[(SEARCH, &["golden_searches_find_the_same_but_where_words_are_told_from_their_insides"])],
    ),
    (
        "registry",
        "namespace and query narrow together",
        So,
        &[(SEARCH, &["a_namespace_is_asked_for_by_its_label_or_its_key_exactly"])],
    ),
    (
        "registry",
        "an empty query lists everything",
        So,
        &[(SEARCH, &["a_question_without_text_lists_all_by_name_and_says_how_many_there_are"])],
    ),
    (
        "registry",
        "namespaces with one label are one group; names within it are in order",
        Beyond("groups stand in the order of their best tool, so that the best comes first"),
        &[(META, &["an_answer_groups_by_label_marks_what_is_down_and_verbose_makes_inspected"])],
    ),
    (
        "registry",
        "a predicate that is false or panics makes only its own tool inactive",
        So,
        &[(
            FUNCTIONS,
            &["a_function_is_there_only_where_its_predicate_holds_and_one_that_panics_is_nowhere"],
        )],
    ),
    ("registry", "what makes a tool for a request may fail for itself only", Without(NO_BUILDER), &[]),
    (
        "registry",
        "an entry without a predicate is active",
        So,
        &[(
            FUNCTIONS,
            &["a_function_is_there_only_where_its_predicate_holds_and_one_that_panics_is_nowhere"],
        )],
    ),
    (
        "registry",
        "coming again in another order changes no order",
        So,
        &[(REGISTRY, &["a_listing_in_another_order_leaves_the_table_as_it_was"])],
    ),
    // Gates and exposition.
    (
        "exposition",
        "nothing deferred: the tools as they are, and no meta tools",
        So,
        &[(SHOWN, &["few_tools_are_shown_and_many_are_left_to_the_meta_tools"])],
    ),
    (
        "exposition",
        "always is deferred, never is not, and search, inspect and invoke come with the first",
        So,
        &[
            (DEFERRAL, &["each_gate_is_strict_and_they_are_asked_in_order"]),
            (SURFACE, &["what_a_search_finds_more_cheaply_is_left_out_and_comes_with_the_meta_tools"]),
        ],
    ),
    (
        "exposition",
        "the gates of count, share of the window and cost decide as the vectors say",
        So,
        &[(
            DEFERRAL,
            &[
                "the_gates_agree_with_every_golden_row_of_either_estimator",
                "the_peers_estimate_is_reproduced",
            ],
        )],
    ),
    (
        "exposition",
        "one large tool alone is not deferred",
        So,
        &[(DEFERRAL, &["each_gate_is_strict_and_they_are_asked_in_order"])],
    ),
    (
        "exposition",
        "what the registry does not know stays in the block",
        Without("every tool of a block comes from the one registry"),
        &[],
    ),
    (
        "exposition",
        "search, inspect and invoke of one request share one ledger",
        Beyond("the ledger is the topic's and counts by fingerprint: a tool that changes is inspected anew"),
        &[(
            TURN,
            &[
                "a_model_searches_inspects_and_invokes_a_tool_that_it_is_not_shown",
                "a_tool_that_was_not_inspected_is_refused_once_with_its_signature",
            ],
        )],
    ),
    (
        "exposition",
        "always holds in the widest window",
        So,
        &[(DEFERRAL, &["a_report_says_what_was_counted_what_was_saved_and_which_gate_decided"])],
    ),
    (
        "exposition",
        "a tool behind an approval is not deferred",
        Beyond(
            "one that comes to ask while it is deferred gets a card until the next pin, instead of a refusal without a way",
        ),
        &[
            (DEFERRAL, &["a_tool_that_always_asks_is_shown_whatever_was_said"]),
            (META, &["a_tool_that_came_to_ask_while_it_was_deferred_is_not_refused"]),
        ],
    ),
    (
        "exposition",
        "the block of a pin stays byte for byte",
        Beyond("over any number of flaps, and a late tool is announced behind the history"),
        &[
            (SURFACE, &["a_thousand_flaps_give_one_hash_for_each_pin"]),
            (SHOWN, &["a_late_tool_is_announced_behind_the_history_and_changes_no_earlier_byte"]),
        ],
    ),
    (
        "exposition",
        "the native variant: eligible tools, a flag in place, a search of the caller's own",
        Without(NATIVE),
        &[],
    ),
    // The section of the prompt.
    (
        "section",
        "nothing deferred: no section",
        So,
        &[(SECTION, &["the_block_agrees_with_every_golden_row_but_for_escaping_and_the_order_of_bytes"])],
    ),
    (
        "section",
        "one line a label with its count, in order, without ids",
        Beyond("labels are escaped and bounded: a server cannot leave its line"),
        &[(
            SECTION,
            &[
                "the_section_says_how_to_reach_tools_and_shows_labels_and_no_ids",
                "hostile_labels_stay_one_line_each_and_read_back_as_they_are",
                "a_section_is_bounded_whatever_servers_are_called",
            ],
        )],
    ),
    (
        "section",
        "its text may be replaced or left out",
        Without(
            "the embedder composes its own prompt; the section is one field of the surface beside the tools",
        ),
        &[],
    ),
    // tool_search.
    (
        "search",
        "no argument lists every deferred tool, in groups, and no inline one",
        So,
        &[
            (META, &["a_search_is_read_from_whatever_a_model_writes"]),
            (ASKED, &["a_call_comes_to_a_tool_an_answer_or_words_whatever_name_it_has"]),
        ],
    ),
    (
        "search",
        "without verbose: no schemas, and nothing is inspected; with it both",
        So,
        &[(META, &["an_answer_groups_by_label_marks_what_is_down_and_verbose_makes_inspected"])],
    ),
    (
        "search",
        "what is listed without its schema is not inspected",
        So,
        &[(META, &["an_answer_is_bounded_and_what_it_leaves_out_is_not_inspected"])],
    ),
    (
        "search",
        "no hit advises how to ask",
        Beyond("it names the namespaces there are and the nearest names"),
        &[
            (META, &["a_search_without_a_hit_names_what_there_is"]),
            (SEARCH, &["a_question_that_finds_nothing_is_told_where_tools_are_and_which_names_are_near"]),
        ],
    ),
    (
        "search",
        "an exact name comes first",
        Beyond("then names that begin so, then words; the same in every variant"),
        &[(
            SEARCH,
            &[
                "an_exact_name_comes_first_then_names_that_begin_so_then_words",
                "every_tool_is_first_for_its_own_names_but_for_tools_that_share_them",
            ],
        )],
    ),
    (
        "search",
        "a tool whose server is down",
        Beyond("is marked and stays; the other client says nothing about it"),
        &[(TURN, &["a_search_marks_tools_whose_server_is_down"])],
    ),
    // tool_inspect.
    (
        "inspect",
        "the signature with names, types and what is required, sorted and always the same",
        So,
        &[
            (META, &["an_inspection_shows_the_signature_and_lets_the_call_pass"]),
            (
                "rules/src/signature/tests.rs",
                &[
                    "a_property_is_said_with_all_that_a_model_needs",
                    "signatures_agree_with_the_stubs_of_others_but_for_what_they_lack",
                ],
            ),
        ],
    ),
    (
        "inspect",
        "a tool out of reach is refused even if it is registered, and an unknown name too",
        So,
        &[(META, &["a_tool_that_is_shown_needs_no_inspection_and_another_tenants_tool_is_none"])],
    ),
];
