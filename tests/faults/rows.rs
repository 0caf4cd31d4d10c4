//! Which tests answer each fault of the bank.

use super::named::Tests;

const NAMES: &str = "tests/behaviour/faults/names.rs";
const SCHEMAS: &str = "tests/behaviour/faults/schemas.rs";
const ARGUMENTS: &str = "tests/behaviour/faults/arguments.rs";
const RESULTS: &str = "tests/behaviour/faults/results.rs";
const LINES: &str = "tests/behaviour/faults/lines.rs";
const LISTINGS: &str = "tests/behaviour/faults/listings.rs";
const CALLS: &str = "tests/behaviour/faults/calls.rs";
const SERVERS: &str = "tests/behaviour/faults/servers.rs";
const HTTP: &str = "tests/behaviour/faults/http.rs";
const PROCESSES: &str = "tests/harness/tests/processes.rs";
const LOGIN: &str = "adapters/tests/http_contract/login.rs";

const CATALOG: &str = "tests/behaviour/catalog.rs";
const CHANGES: &str = "tests/behaviour/changes.rs";
const LIVES: &str = "tests/behaviour/servers.rs";
const PROTOCOL: &str = "tests/behaviour/protocol.rs";
const WIRE: &str = "adapters/tests/mcp_contract.rs";
const CHILDREN: &str = "adapters/tests/mcp_contract/process.rs";
const GENERATIONS: &str = "adapters/tests/mcp_contract/generations.rs";
const WEB_WIRE: &str = "adapters/tests/http_contract.rs";
const WEB_FAULTS: &str = "adapters/tests/http_contract/faults.rs";
const TREE: &str = "supervision/src/servers/tests.rs";
const LIFE: &str = "supervision/src/servers/tests/life.rs";
const SLED: &str = "adapters/tests/sled_store.rs";
const STORES: &str = "adapters/tests/store_contract.rs";
const GOLDEN: &str = "adapters/tests/golden.rs";
const LOG: &str = "adapters/src/store/log/tests.rs";
const RECORD: &str = "messages/src/record/tests.rs";
const PAST: &str = "tests/behaviour/past.rs";
const META: &str = "rules/src/meta/tests.rs";
const CARDS: &str = "tests/behaviour/faults/approvals.rs";
const APPROVALS: &str = "tests/behaviour/approvals.rs";
const GRANTS: &str = "tests/behaviour/grants.rs";
const GRANT_RULES: &str = "rules/src/grant/tests.rs";
const RACES: &str = "tests/behaviour/races.rs";
const AUDIT: &str = "tests/behaviour/audit.rs";

const TURNS: &str = "tests/behaviour/turns.rs";
const OF_TURNS: &str = "tests/behaviour/faults/turns.rs";
const STEERING: &str = "tests/behaviour/steering.rs";
const QUEUE: &str = "tests/behaviour/queue.rs";
const RECOVERY: &str = "tests/behaviour/recovery.rs";
const ACTORS: &str = "tests/behaviour/faults/actors.rs";
const MISHAPS: &str = "tests/behaviour/mishaps.rs";
const RANDOM: &str = "rules/src/topic/tests/random.rs";
const ORDERS: &str = "rules/src/topic/tests/interleavings.rs";
const STREAMS: &str = "tests/behaviour/streams.rs";
const MODELS: &str = "tests/behaviour/models.rs";

/// What is expected of each fault is what these tests assert.
pub(crate) const ROWS: &[(&str, &[Tests])] = &[
    // F01: startup and handshake.
    ("B001", &[(SERVERS, &["a_turn_begins_at_once_with_the_tools_of_those_that_answer"])]),
    (
        "B002",
        &[
            (SERVERS, &["a_turn_begins_at_once_with_the_tools_of_those_that_answer"]),
            (LIVES, &["one_dead_server_does_not_touch_another"]),
        ],
    ),
    ("B005", &[(SERVERS, &["many_servers_that_are_slow_to_start_are_all_ready_in_the_end"])]),
    (
        "B007",
        &[
            (SERVERS, &["no_server_and_only_dead_servers_are_told_apart_and_delay_nothing"]),
            (WEB_WIRE, &["a_server_that_dies_ends_the_connection"]),
        ],
    ),
    // F02: processes.
    ("B008", &[(CHILDREN, &["grandchildren_die_with_their_group"])]),
    (
        "B009",
        &[
            (CHILDREN, &["a_program_that_cannot_start_says_what_to_do"]),
            (LIVES, &["dead_servers_do_not_delay_the_start_nor_a_turn"]),
        ],
    ),
    (
        "B010",
        &[
            (SERVERS, &["a_server_that_dies_while_idle_keeps_its_place_and_is_called_again"]),
            (
                "rules/src/search/tests.rs",
                &["a_tool_whose_server_is_down_is_marked_and_stays_and_one_outside_the_pool_is_not_there"],
            ),
        ],
    ),
    ("B011", &[(SERVERS, &["fifty_topics_share_one_connection_and_a_shutdown_ends_it"])]),
    (
        "B012",
        &[
            (CHILDREN, &["a_connect_that_is_dropped_leaves_no_process"]),
            (PROCESSES, &["a_server_that_never_greets_leaves_no_process_behind"]),
        ],
    ),
    (
        "B013",
        &[
            (PROCESSES, &["a_restart_leaves_one_process_however_the_old_one_clings"]),
            (WIRE, &["a_server_that_ignores_its_end_is_killed_within_the_grace"]),
        ],
    ),
    ("B014", &[(PROCESSES, &["the_next_process_starts_once_the_last_one_has_let_go"])]),
    ("B015", &[(PROCESSES, &["a_restart_leaves_one_process_however_the_old_one_clings"])]),
    (
        "B017",
        &[
            (PROCESSES, &["the_next_process_starts_once_the_last_one_has_let_go"]),
            ("rules/src/connection/tests.rs", &["there_are_never_two_connections_and_every_back_off_ends"]),
        ],
    ),
    // F03: lines and standard error.
    ("B019", &[(PROCESSES, &["words_on_standard_error_hold_up_nothing_and_are_kept_within_a_bound"])]),
    (
        "B021",
        &[(
            LINES,
            &[
                "marks_and_line_ends_are_no_part_of_a_message",
                "lines_that_only_look_like_messages_are_skipped",
            ],
        )],
    ),
    ("B023", &[(LINES, &["lines_that_only_look_like_messages_are_skipped"])]),
    ("B024", &[(PROCESSES, &["words_on_standard_error_hold_up_nothing_and_are_kept_within_a_bound"])]),
    ("B025", &[(LINES, &["characters_that_arrive_in_pieces_are_whole"])]),
    ("B026", &[(WIRE, &["a_line_without_end_ends_the_connection"])]),
    ("B027", &[(PROCESSES, &["words_on_standard_error_hold_up_nothing_and_are_kept_within_a_bound"])]),
    ("B028", &[(LINES, &["marks_and_line_ends_are_no_part_of_a_message"])]),
    ("B030", &[(LINES, &["an_answer_whose_id_became_a_text_is_the_answer"])]),
    ("B031", &[(LINES, &["an_error_without_id_or_a_foreign_answer_is_given_to_nobody_else"])]),
    ("B032", &[(LINES, &["a_server_that_answers_under_a_used_id_is_given_up_in_time_and_told_apart"])]),
    // F04: results.
    (
        "B034",
        &[(
            RESULTS,
            &[
                "a_text_beyond_the_bound_is_cut_between_characters_and_says_how_long_it_was",
                "a_piece_of_any_kind_is_handed_on_as_it_came",
            ],
        )],
    ),
    ("B036", &[(RESULTS, &["an_image_beyond_the_bound_is_left_out_whole_and_never_cut"])]),
    ("B038", &[(RESULTS, &["an_error_of_a_tool_is_told_and_not_measured_by_the_schema_of_its_results"])]),
    ("B042", &[(RESULTS, &["structured_content_is_judged_alike_whether_the_listing_is_stored_or_live"])]),
    // F05: listings.
    (
        "B044",
        &[
            (CATALOG, &["another_definition_drops_the_stored_listing_at_once"]),
            (LIVES, &["a_call_to_a_server_that_is_down_is_unavailable_at_once_and_says_when_to_come_back"]),
        ],
    ),
    (
        "B045",
        &[(
            LISTINGS,
            &["a_tool_that_comes_while_nothing_runs_is_listed_within_a_second_and_in_the_next_turn"],
        )],
    ),
    ("B047", &[(TREE, &["an_edited_definition_has_no_listing_of_the_old_one"])]),
    ("B048", &[(LISTINGS, &["a_listing_without_end_is_refused_at_its_bound"])]),
    ("B049", &[(LISTINGS, &["a_listing_that_leads_in_a_circle_is_what_it_gave_each_once"])]),
    ("B051", &[(LISTINGS, &["a_burst_of_notices_costs_a_few_listings_and_ends_with_the_last_state"])]),
    ("B052", &[(HTTP, &["the_list_changed_of_a_stream_is_followed_while_nothing_runs"])]),
    (
        "B053",
        &[(
            "rules/src/catalog/tests.rs",
            &[
                "a_removed_server_is_gone_and_starts_cold_if_it_comes_back",
                "an_answer_counts_under_the_current_ticket_only",
            ],
        )],
    ),
    ("B055", &[(LISTINGS, &["tools_stay_and_can_be_called_after_a_refresh_that_failed"])]),
    (
        "B056",
        &[(
            LISTINGS,
            &["a_server_that_announces_a_change_whenever_it_is_asked_is_asked_once_a_second_at_most"],
        )],
    ),
    ("B057", &[(LISTINGS, &["a_name_that_is_not_in_the_listing_is_never_forwarded"])]),
    ("B059", &[(LISTINGS, &["a_listing_that_leads_in_a_circle_is_what_it_gave_each_once"])]),
    (
        "B060",
        &[("rules/src/listing/tests.rs", &["a_cursor_that_comes_again_ends_the_listing_with_what_was_read"])],
    ),
    ("B061", &[(LISTINGS, &["every_listing_is_that_of_its_own_server_whoever_answers_first"])]),
    // F06: versions and capabilities.
    ("B063", &[(LISTINGS, &["a_version_is_taken_if_it_is_understood_and_else_named"])]),
    ("B065", &[(LISTINGS, &["a_version_is_taken_if_it_is_understood_and_else_named"])]),
    ("B066", &[(WEB_WIRE, &["a_connection_greets_lists_and_calls"])]),
    ("B067", &[(LISTINGS, &["what_a_server_says_before_and_beside_its_handshake_does_not_break_it"])]),
    (
        "B068",
        &[(
            "rules/src/protocol/tests.rs",
            &["a_refused_version_that_the_server_names_all_the_same_is_asked_for_once_more"],
        )],
    ),
    (
        "B069",
        &[
            (LISTINGS, &["what_a_server_says_before_and_beside_its_handshake_does_not_break_it"]),
            (WIRE, &["a_server_without_tools_is_not_asked_for_them"]),
        ],
    ),
    ("B070", &[(LISTINGS, &["what_a_server_says_before_and_beside_its_handshake_does_not_break_it"])]),
    ("B071", &[(LISTINGS, &["a_version_is_taken_if_it_is_understood_and_else_named"])]),
    // F07: names.
    ("B072", &[(NAMES, &["tools_of_one_name_on_two_servers_are_two_tools"])]),
    ("B073", &[(NAMES, &["a_name_that_no_provider_takes_is_shown_as_one_that_every_provider_takes"])]),
    ("B074", &[(NAMES, &["a_name_without_sense_costs_its_own_tool_only"])]),
    ("B075", &[(NAMES, &["long_ids_and_names_that_differ_in_their_last_character_stay_apart"])]),
    ("B077", &[(NAMES, &["a_tool_that_is_listed_twice_is_there_once_and_its_server_is_told"])]),
    ("B078", &[(NAMES, &["tools_of_one_name_on_two_servers_are_two_tools"])]),
    ("B079", &[(NAMES, &["names_that_become_alike_stay_apart_and_are_the_same_after_every_start"])]),
    ("B081", &[(NAMES, &["a_servers_tool_with_the_name_of_one_of_ours_takes_nothing_from_it"])]),
    ("B082", &[(NAMES, &["names_that_become_alike_stay_apart_and_are_the_same_after_every_start"])]),
    // F08: schemas.
    ("B084", &[(SCHEMAS, &["a_schema_that_is_none_for_arguments_costs_its_own_tool_only"])]),
    ("B085", &[(SCHEMAS, &["a_property_without_a_type_is_shown_to_every_provider"])]),
    (
        "B087",
        &[(SCHEMAS, &["a_schema_with_definitions_at_its_root_is_whole_for_every_provider_and_checked"])],
    ),
    ("B088", &[(SCHEMAS, &["words_that_only_some_providers_know_are_kept_and_not_shown_to_the_others"])]),
    ("B089", &[(SCHEMAS, &["words_that_only_some_providers_know_are_kept_and_not_shown_to_the_others"])]),
    ("B090", &[(SCHEMAS, &["alternatives_stay_alternatives_wherever_they_stand"])]),
    ("B091", &[(SCHEMAS, &["a_schema_that_refers_to_itself_is_shown_within_bounds"])]),
    ("B093", &[(SCHEMAS, &["alternatives_stay_alternatives_wherever_they_stand"])]),
    (
        "B095",
        &[
            (SCHEMAS, &["words_that_only_some_providers_know_are_kept_and_not_shown_to_the_others"]),
            ("rules/src/arguments/tests.rs", &["the_draft_that_a_schema_names_is_the_measure"]),
        ],
    ),
    ("B097", &[(SCHEMAS, &["a_reference_to_another_property_is_followed_for_those_who_cannot"])]),
    ("B098", &[(SCHEMAS, &["a_schema_that_refers_to_itself_is_shown_within_bounds"])]),
    // F09: arguments.
    ("B099", &[(ARGUMENTS, &["a_call_that_was_cut_off_is_not_sent_and_history_stays_acceptable"])]),
    (
        "B100",
        &[
            (ARGUMENTS, &["arguments_that_were_not_written_are_an_empty_object"]),
            (
                "rules/src/arguments/repair/tests.rs",
                &["nothing_written_is_no_arguments_where_none_are_needed"],
            ),
        ],
    ),
    ("B101", &[(ARGUMENTS, &["arguments_that_are_no_json_spoil_no_later_request"])]),
    (
        "B106",
        &[(ARGUMENTS, &["a_function_never_sees_a_value_of_the_wrong_type_and_keeps_no_server_waiting"])],
    ),
    // F10: HTTP, event streams, credentials, sessions.
    ("B108", &[(HTTP, &["whatever_answers_a_notice_is_no_message_unless_it_is_one"])]),
    (
        "B109",
        &[
            (HTTP, &["events_are_read_whatever_ends_their_lines"]),
            (
                "adapters/src/response/sse/tests.rs",
                &["events_are_the_same_whatever_the_borders_of_the_chunks"],
            ),
        ],
    ),
    ("B111", &[(HTTP, &["an_answer_that_was_lost_is_fetched_or_told_at_once_and_never_run_again"])]),
    ("B112", &[(HTTP, &["an_answer_that_was_lost_is_fetched_or_told_at_once_and_never_run_again"])]),
    ("B113", &[(HTTP, &["whatever_answers_a_notice_is_no_message_unless_it_is_one"])]),
    ("B114", &[(HTTP, &["an_empty_answer_fails_its_own_call_and_no_other"])]),
    ("B115", &[(HTTP, &["a_server_without_a_stream_of_its_own_is_used_by_its_answers"])]),
    (
        "B116",
        &[(
            HTTP,
            &[
                "a_content_type_is_read_as_one_whatever_its_letters_and_parameters",
                "whatever_answers_a_notice_is_no_message_unless_it_is_one",
            ],
        )],
    ),
    ("B117", &[(PROCESSES, &["a_proxy_of_the_environment_is_not_asked_for_servers_on_this_machine"])]),
    ("B118", &[(HTTP, &["localhost_is_whichever_address_answers"])]),
    (
        "B121",
        &[
            (HTTP, &["a_session_that_was_forgotten_is_begun_anew_whatever_the_server_says_of_it"]),
            (WEB_FAULTS, &["a_session_that_the_server_has_forgotten_ends_the_connection"]),
        ],
    ),
    ("B124", &[(CALLS, &["a_session_that_is_lost_behind_a_gateway_costs_the_tools_behind_it_only"])]),
    ("B125", &[(HTTP, &["a_stored_listing_brings_no_session_back"])]),
    ("B127", &[(WEB_FAULTS, &["an_answer_that_breaks_off_is_resumed_after_its_last_event"])]),
    (
        "B129",
        &[(
            "adapters/src/mcp/http/reach/tests.rs",
            &["a_redirect_away_from_https_is_refused_in_words_of_its_own"],
        )],
    ),
    ("B130", &[(WEB_WIRE, &["a_polite_end_ends_calls_and_session_within_the_grace"])]),
    // F11: cancellation and timeouts.
    ("B131", &[(CALLS, &["a_stop_in_the_second_of_five_calls_sends_none_of_the_others"])]),
    ("B132", &[(CALLS, &["progress_is_asked_for_and_keeps_a_call_alive"])]),
    (
        "B133",
        &[
            (CALLS, &["a_call_that_timed_out_is_cancelled_and_neither_sent_again_nor_taken_for_another"]),
            (GENERATIONS, &["an_answer_that_comes_when_nobody_waits_any_more_is_counted"]),
        ],
    ),
    ("B134", &[(CALLS, &["calls_that_nobody_waits_for_any_more_are_cancelled_and_leave_their_places"])]),
    (
        "B135",
        &[(CALLS, &["a_call_that_timed_out_is_cancelled_and_neither_sent_again_nor_taken_for_another"])],
    ),
    ("B138", &[(HTTP, &["a_call_that_hangs_before_its_head_holds_up_no_other_and_its_end_is_prompt"])]),
    ("B139", &[(CALLS, &["progress_without_end_ends_at_the_cap_and_is_cancelled_once"])]),
    (
        "B140",
        &[(CALLS, &["a_call_that_timed_out_is_cancelled_and_neither_sent_again_nor_taken_for_another"])],
    ),
    // F12: what servers ask.
    ("B142", &[(SERVERS, &["a_server_that_waits_for_our_answers_is_answered_at_once"])]),
    (
        "B143",
        &[
            (PROTOCOL, &["a_question_is_answered_by_the_embedder_however_long_a_person_takes"]),
            (SERVERS, &["a_server_that_waits_for_our_answers_is_answered_at_once"]),
        ],
    ),
    ("B144", &[(WEB_WIRE, &["whatever_a_server_asks_is_answered"])]),
    ("B145", &[(SERVERS, &["progress_in_the_first_call_reaches_nobody_in_the_way_of_its_result"])]),
    ("B146", &[(HTTP, &["what_a_server_asks_on_a_stream_that_opens_late_is_answered"])]),
    ("B147", &[(PROTOCOL, &["a_question_is_answered_by_the_embedder_however_long_a_person_takes"])]),
    // F13: reconnecting.
    (
        "B148",
        &[
            (SERVERS, &["a_server_comes_back_after_an_outage_of_any_length"]),
            (LIVES, &["a_parked_server_starts_when_it_is_told_to"]),
        ],
    ),
    ("B149", &[(SERVERS, &["calls_to_a_dead_server_fail_at_once_and_cause_no_connection"])]),
    ("B150", &[(SERVERS, &["a_server_that_greets_and_dies_is_tried_more_and_more_seldom"])]),
    ("B151", &[(CALLS, &["a_call_whose_server_died_is_not_sent_again_by_anybody"])]),
    ("B152", &[(SERVERS, &["ends_that_are_far_apart_are_never_added_up"])]),
    ("B153", &[(SERVERS, &["calls_to_a_dead_server_fail_at_once_and_cause_no_connection"])]),
    ("B154", &[(SERVERS, &["many_servers_that_are_slow_to_start_are_all_ready_in_the_end"])]),
    ("B155", &[(LIFE, &["an_idle_server_is_stopped_and_the_next_call_or_refresh_starts_it"])]),
    ("B156", &[(LIFE, &["a_silent_server_is_ready_no_longer_than_one_interval_and_one_deadline"])]),
    // F14: approvals.
    (
        "B157",
        &[
            (APPROVALS, &["a_stop_withdraws_the_cards_of_its_turn"]),
            (RACES, &["once_a_stop_has_returned_nothing_starts_whoever_decides"]),
        ],
    ),
    (
        "B158",
        &[(
            "tests/harness/tests/driver/crash.rs",
            &["a_card_that_was_open_at_a_crash_is_decided_in_the_next_run_and_its_tool_runs_once"],
        )],
    ),
    (
        "B162",
        &[(CARDS, &["a_card_that_nobody_sees_waits_for_a_late_window_and_expires_as_nobodys_decision"])],
    ),
    (
        "B163",
        &[(
            CHANGES,
            &["a_granted_tool_that_changed_is_asked_about_again_with_both_sides_also_after_a_restart"],
        )],
    ),
    ("B164", &[(APPROVALS, &["of_many_deciders_exactly_one_decides_and_the_others_are_told_who"])]),
    ("B165", &[(CARDS, &["a_provider_that_uses_one_id_again_gets_a_card_for_each_of_its_calls"])]),
    ("B166", &[(GRANTS, &["several_cards_are_decided_at_once_each_by_its_own_decision"])]),
    (
        "B167",
        &[
            (META, &["meta_tools_are_not_called_through_another_tool"]),
            (
                "rules/src/meta/request/tests.rs",
                &["no_path_runs_a_tool_without_its_decision_and_no_refusal_names_a_way_that_there_is_not"],
            ),
        ],
    ),
    (
        "B168",
        &[
            (APPROVALS, &["a_stop_withdraws_the_cards_of_its_turn"]),
            (RACES, &["once_a_stop_has_returned_nothing_starts_whoever_decides"]),
        ],
    ),
    (
        "B169",
        &[
            (APPROVALS, &["a_card_that_nobody_decides_expires_and_the_turn_stops_after_the_others_ran"]),
            ("rules/src/approval/tests.rs", &["the_first_decision_is_the_last_word"]),
        ],
    ),
    ("B170", &[(CARDS, &["a_grant_holds_after_a_restart_and_a_renaming_of_its_server"])]),
    ("B171", &[(APPROVALS, &["a_call_that_needs_nobody_runs_while_a_card_waits"])]),
    ("B173", &[(APPROVALS, &["each_call_runs_as_soon_as_its_own_card_is_decided"])]),
    (
        "B174",
        &[
            (
                "rules/src/gate/tests.rs",
                &["deny_goes_before_ask_before_grant_before_mode_and_what_is_unheard_asks"],
            ),
            (GRANT_RULES, &["a_grant_covers_a_call_only_if_everything_fits"]),
        ],
    ),
    ("B175", &[(GRANT_RULES, &["a_grant_covers_a_call_only_if_everything_fits"])]),
    ("B176", &[(GRANT_RULES, &["a_grant_covers_a_call_only_if_everything_fits"])]),
    ("B177", &[(GRANT_RULES, &["a_grant_covers_a_call_only_if_everything_fits"])]),
    ("B178", &[(GRANT_RULES, &["a_path_is_under_a_directory_only_if_its_text_says_so_beyond_doubt"])]),
    ("B179", &[(AUDIT, &["a_damaged_ledger_is_told_as_far_as_it_is_whole_and_no_runtime_starts_on_it"])]),
    ("B180", &[(GRANT_RULES, &["a_grant_covers_a_call_only_if_everything_fits"])]),
    ("B182", &[(RACES, &["once_a_stop_has_returned_nothing_starts_whoever_decides"])]),
    (
        "B183",
        &[
            (
                "tests/harness/tests/durability.rs",
                &["a_second_process_on_one_directory_is_told_that_it_is_in_use"],
            ),
            ("adapters/tests/sled_store.rs", &["a_second_store_on_one_directory_is_told_that_it_is_locked"]),
        ],
    ),
    ("B184", &[(GRANTS, &["a_stricter_mode_counts_at_once_and_takes_open_cards_back"])]),
    ("B185", &[(GRANTS, &["a_grant_lets_the_next_call_run_and_a_revoked_one_asks_again"])]),
    (
        "B186",
        &[(CARDS, &["a_card_that_nobody_sees_waits_for_a_late_window_and_expires_as_nobodys_decision"])],
    ),
    (
        "B187",
        &[(
            "rules/src/meta/request/tests.rs",
            &["a_call_comes_to_a_tool_an_answer_or_words_whatever_name_it_has"],
        )],
    ),
    (
        "B190",
        &[
            (AUDIT, &["every_call_says_why_it_was_allowed"]),
            ("rules/src/audit/tests.rs", &["a_call_that_ran_needs_a_mode_that_lets_it"]),
        ],
    ),
    // F20: what servers and people may make us do.
    ("B259", &[(CHILDREN, &["a_process_gets_the_base_list_and_what_is_declared"])]),
    ("B262", &[(SERVERS, &["ids_of_topics_are_never_names_of_files"])]),
    ("B263", &[(CARDS, &["what_a_server_instructs_is_put_into_no_prompt"])]),
    ("B264", &[(CHILDREN, &["a_process_gets_the_base_list_and_what_is_declared"])]),
    (
        "B265",
        &[
            ("adapters/src/web/tests.rs", &["only_addresses_of_the_open_web_are_read"]),
            (
                "adapters/src/policy/tests.rs",
                &["only_public_addresses_are_public", "a_host_with_one_address_inside_is_inside"],
            ),
        ],
    ),
    (
        "B266",
        &[
            (HTTP, &["a_server_inside_is_never_reached_against_the_policy"]),
            (WEB_WIRE, &["a_server_is_not_reached_against_the_policy"]),
        ],
    ),
    // F21: deferred tools.
    ("B268", &[(META, &["an_invocation_is_checked_in_order_and_refused_with_the_first_fault"])]),
    (
        "B270",
        &[
            (META, &["an_invocation_is_checked_in_order_and_refused_with_the_first_fault"]),
            (
                "tests/behaviour/queue.rs",
                &["a_model_that_repeats_a_refused_call_is_stopped_after_the_third_time"],
            ),
        ],
    ),
    (
        "B272",
        &[(
            META,
            &[
                "a_search_is_read_from_whatever_a_model_writes",
                "an_answer_groups_by_label_marks_what_is_down_and_verbose_makes_inspected",
            ],
        )],
    ),
    ("B273", &[(META, &["arguments_are_taken_from_where_a_model_puts_them_and_never_lost"])]),
    ("B274", &[(META, &["an_invocation_is_checked_in_order_and_refused_with_the_first_fault"])]),
    ("B275", &[("rules/src/registry/policy/tests.rs", &["rules_that_match_nothing_are_told"])]),
    // F15: steering and turns.
    ("B192", &[(LIVES, &["a_call_whose_server_dies_is_unknown_and_the_turn_goes_on"])]),
    (
        "B193",
        &[
            (TURNS, &["a_stop_returns_at_once_with_a_tool_hanging_and_a_late_result_changes_nothing"]),
            (RECOVERY, &["a_turn_that_ran_is_interrupted_and_what_waited_is_held"]),
        ],
    ),
    (
        "B194",
        &[
            (STEERING, &["a_message_sent_as_the_turn_ends_is_in_exactly_one_place"]),
            (
                "tests/behaviour/races.rs",
                &["a_steer_at_any_moment_of_a_turn_on_a_slow_store_is_answered_once"],
            ),
            (
                ORDERS,
                &["a_steer_a_stop_a_decision_and_results_in_every_order_leave_each_message_in_one_place"],
            ),
        ],
    ),
    (
        "B195",
        &[
            (OF_TURNS, &["messages_sent_from_two_tasks_at_once_are_answered_by_one_turn_after_the_other"]),
            (RANDOM, &["whatever_happens_in_whatever_order_the_laws_of_a_topic_hold"]),
        ],
    ),
    (
        "B196",
        &[(OF_TURNS, &["one_call_of_three_that_fails_keeps_the_results_of_the_others_and_its_own_words"])],
    ),
    (
        "B197",
        &[
            (MODELS, &["calls_with_one_id_of_the_provider_are_two_calls_to_us"]),
            (RECOVERY, &["a_turn_that_ran_is_interrupted_and_what_waited_is_held"]),
        ],
    ),
    ("B200", &[(OF_TURNS, &["twenty_messages_over_a_turn_of_ten_calls_are_each_in_history_once"])]),
    ("B202", &[(OF_TURNS, &["a_message_that_joined_a_turn_which_is_stopped_is_told_to_the_next_turn_once"])]),
    (
        "B204",
        &[
            (STEERING, &["a_stop_holds_what_waits_and_the_next_message_does_not_wake_it"]),
            (QUEUE, &["held_messages_are_edited_dropped_and_sent_again_also_after_a_crash"]),
        ],
    ),
    (
        "B205",
        &[
            (RANDOM, &["whatever_happens_in_whatever_order_the_laws_of_a_topic_hold"]),
            (RECOVERY, &["whatever_a_crash_leaves_nothing_is_lost_and_nothing_runs_twice"]),
        ],
    ),
    ("B206", &[(ORDERS, &["whatever_ends_a_turn_beside_a_steer_ends_it_once_and_only_a_good_end_chains"])]),
    (
        "B207",
        &[
            (QUEUE, &["in_a_topic_that_injects_a_message_joins_the_turn_before_its_next_step"]),
            (
                "rules/src/topic/tests/levels.rs",
                &["in_a_topic_that_injects_all_that_steers_joins_the_turn_before_its_next_step"],
            ),
        ],
    ),
    // F16: parallel calls.
    (
        "B209",
        &[(OF_TURNS, &["one_call_of_three_that_fails_keeps_the_results_of_the_others_and_its_own_words"])],
    ),
    ("B210", &[(MODELS, &["calls_with_one_id_of_the_provider_are_two_calls_to_us"])]),
    (
        "B211",
        &[
            (TURNS, &["parallel_calls_have_their_results_in_the_order_of_the_calls"]),
            (CALLS, &["a_stop_in_the_second_of_five_calls_sends_none_of_the_others"]),
        ],
    ),
    ("B213", &[(OF_TURNS, &["results_that_come_after_a_stop_are_in_no_later_turn"])]),
    ("B214", &[(MODELS, &["calls_with_one_id_of_the_provider_are_two_calls_to_us"])]),
    ("B215", &[(TURNS, &["parallel_calls_have_their_results_in_the_order_of_the_calls"])]),
    ("B217", &[(OF_TURNS, &["batches_of_ten_calls_run_each_of_them_once_and_take_as_long_as_the_slowest"])]),
    // F17: streams and subscribers.
    (
        "B219",
        &[(
            "tests/behaviour/runtime.rs",
            &["a_window_that_does_not_keep_up_is_told_and_nobody_else_notices"],
        )],
    ),
    (
        "B220",
        &[
            ("tests/behaviour/runtime.rs", &["a_window_shows_the_view_at_one_point_and_everything_after_it"]),
            (STREAMS, &["a_view_and_the_events_after_it_have_no_gap_and_a_slow_window_harms_only_itself"]),
        ],
    ),
    (
        "B221",
        &[("tests/behaviour/runtime.rs", &["a_window_shows_the_view_at_one_point_and_everything_after_it"])],
    ),
    ("B223", &[(OF_TURNS, &["places_of_events_grow_over_a_restart"])]),
    (
        "B224",
        &[(OF_TURNS, &["a_flood_of_messages_is_queued_or_refused_and_every_one_that_was_taken_is_known"])],
    ),
    ("B225", &[(OF_TURNS, &["a_window_shows_its_own_topic_only"])]),
    ("B226", &[(OF_TURNS, &["a_window_that_always_falls_behind_has_it_all_when_the_topic_rests"])]),
    ("B016", &[(PROCESSES, &["a_question_on_standard_output_is_shown_when_its_server_is_given_up"])]),
    ("B122", &[(LOGIN, &["a_token_that_is_not_taken_any_more_is_renewed_once_and_the_call_goes_on"])]),
    ("B126", &[(LOGIN, &["a_token_that_another_process_has_renewed_survives_whoever_comes_too_late"])]),
    // F18: what is stored.
    (
        "B227",
        &[
            (SLED, &["what_was_acknowledged_survives_a_kill_at_any_moment"]),
            (STORES, &["the_changes_of_a_batch_happen_in_order_and_together"]),
            (LOG, &["every_kind_of_damage_names_the_record_where_it_begins"]),
        ],
    ),
    (
        "B228",
        &[(
            PAST,
            &[
                "waking_reads_as_much_of_a_long_past_as_of_a_short_one",
                "a_long_past_is_read_in_pages_without_a_gap_and_the_same_after_a_crash",
                "a_model_is_told_no_more_of_the_past_than_has_a_place",
            ],
        )],
    ),
    (
        "B229",
        &[
            (GOLDEN, &["events_of_topics_keep_their_bytes"]),
            ("adapters/tests/golden/checkpoints.rs", &["checkpoints_of_topics_keep_their_bytes"]),
            (SLED, &["a_store_of_a_newer_version_is_named"]),
            ("adapters/src/store/head/tests.rs", &["a_head_keeps_its_bytes_and_one_that_is_none_is_damaged"]),
        ],
    ),
    (
        "B230",
        &[(
            SLED,
            &[
                "a_half_written_snapshot_does_not_keep_the_store_from_opening",
                "a_damaged_snapshot_is_named_as_damage_and_kept",
                "what_was_acknowledged_survives_a_kill_at_any_moment",
            ],
        )],
    ),
    (
        "B231",
        &[
            (RECORD, &["every_cut_and_every_flipped_bit_is_damage_never_a_panic"]),
            (SLED, &["data_without_the_record_that_a_store_begins_with_is_refused"]),
        ],
    ),
    (
        "B233",
        &[
            (LOG, &["every_kind_of_damage_names_the_record_where_it_begins"]),
            (PAST, &["a_topic_whose_records_are_damaged_says_so_and_no_other_notices"]),
        ],
    ),
    (
        "B234",
        &[
            (STORES, &["nothing_follows_a_refused_batch_of_its_lane"]),
            (
                "tests/behaviour/store.rs",
                &["whichever_batch_fails_or_stalls_nothing_is_lost_and_nothing_runs_twice"],
            ),
        ],
    ),
    ("B235", &[(PAST, &["a_topic_whose_records_are_damaged_says_so_and_no_other_notices"])]),
    (
        "B236",
        &[
            (SLED, &["what_was_acknowledged_survives_a_kill_at_any_moment"]),
            (
                "tests/behaviour/recovery.rs",
                &["whatever_a_crash_leaves_nothing_is_lost_and_nothing_runs_twice"],
            ),
        ],
    ),
    ("B239", &[(PAST, &["waking_reads_as_much_of_a_long_past_as_of_a_short_one"])]),
    (
        "B241",
        &[(
            SLED,
            &["a_store_is_made_for_its_owner_only", "a_path_that_is_no_directory_is_refused_with_what_to_do"],
        )],
    ),
    // F19: actors.
    (
        "B243",
        &[
            (
                WIRE,
                &[
                    "a_server_that_stops_reading_stops_nobody",
                    "a_server_that_leaves_the_whole_queue_unread_is_given_up",
                ],
            ),
            (MISHAPS, &["a_connection_may_fail_at_any_message_and_the_tree_heals"]),
        ],
    ),
    (
        "B244",
        &[
            (
                MISHAPS,
                &[
                    "the_ledger_may_fail_at_any_message_and_the_tree_heals",
                    "the_catalog_may_fail_at_any_message_and_the_tree_heals",
                    "the_registry_may_fail_at_any_message_and_the_tree_heals",
                    "the_supervisor_of_servers_may_fail_at_any_message_and_the_tree_heals",
                    "the_supervisor_of_topics_may_fail_at_any_message_and_the_tree_heals",
                    "a_connection_may_fail_at_any_message_and_the_tree_heals",
                    "a_session_may_fail_at_any_message_and_the_tree_heals",
                ],
            ),
            (TURNS, &["a_function_says_yes_or_no_or_panics_and_the_turn_goes_on"]),
            (TREE, &["a_connector_that_panics_is_a_failure_like_any_other"]),
            (
                "tests/behaviour/store.rs",
                &["whichever_batch_fails_or_stalls_nothing_is_lost_and_nothing_runs_twice"],
            ),
        ],
    ),
    ("B245", &[(ACTORS, &["a_flood_of_askers_is_bounded_and_those_beyond_the_bound_are_told_at_once"])]),
    ("B246", &[(ACTORS, &["of_ten_askers_of_an_actor_that_panics_at_the_third_each_gets_an_answer"])]),
    ("B247", &[(ACTORS, &["a_stop_takes_effect_with_the_mailbox_full"])]),
    ("B249", &[(ACTORS, &["a_function_that_asks_the_runtime_it_runs_in_gets_an_answer"])]),
    ("B251", &[(ACTORS, &["thousands_of_topics_that_have_had_their_turn_leave_no_actor"])]),
    (
        "B252",
        &[(
            "tests/behaviour/sleep.rs",
            &[
                "what_is_open_and_what_somebody_looks_at_stays_awake",
                "a_command_that_comes_as_a_topic_falls_asleep_is_taken_once",
            ],
        )],
    ),
    ("B253", &[(ACTORS, &["callers_of_one_connection_come_and_go_and_it_stays"])]),
    ("B254", &[(HTTP, &["of_two_hundred_calls_each_tenth_of_which_fails_no_other_does"])]),
    ("B255", &[("tests/harness/tests/flaps.rs", &["servers_that_flap_leave_nothing_behind"])]),
    ("B256", &[(ACTORS, &["a_function_that_shuts_the_runtime_down_gets_an_answer_within_the_bound"])]),
    ("B257", &[(ACTORS, &["a_mailbox_of_one_place_is_enough_for_a_whole_turn"])]),
];
