"""Figures that the papers published, to stand beside ours."""

# Zawierucha, "Minimizing Page Faults of Bloom Filters", section 4.1.2 and appendix 8.2.1.
INSERT_SLOPE = {"standard": 1.1078, "page_blocked": 0.893221}  # seconds per million keys
INSERT_SECONDS = {  # millions of keys: (standard, page-blocked), the first of three runs
    1: (0.56, 0.46), 5: (2.88, 2.59), 10: (5.70, 4.82), 20: (12.61, 11.43), 50: (46.85, 37.41), 110: (116.37, 93.55)}

# The same, appendix 8.2.2: bits per element: mean of three runs (standard, page-blocked), 150,000 random keys, k = 7.
RANDOM_KEYS = {
    2: (0.827418, 0.772200), 3: (0.643327, 0.590247), 4: (0.401322, 0.415567), 5: (0.302736, 0.286067),
    6: (0.185467, 0.194471), 7: (0.035556, 0.036529), 8: (0.021913, 0.021918), 9: (0.012629, 0.010802),
    10: (0.008049, 0.008147), 11: (0.004751, 0.004800), 12: (0.003258, 0.003275), 13: (0.002002, 0.001531),
    14: (0.001431, 0.001445), 15: (0.000940, 0.000967), 16: (0.000651, 0.000733), 17: (0.000487, 0.000360),
    18: (0.000298, 0.000398), 19: (0.000222, 0.000247), 20: (0.000162, 0.000107)}

# The same, appendix 8.2.3: bits per element: rate (standard, page-blocked), 700,000 AOL queries.
AOL = {
    1: (0.994547, 0.994404), 2: (0.803272, 0.799828), 3: (0.479409, 0.484001), 4: (0.263022, 0.259291),
    5: (0.139618, 0.149806), 6: (0.074186, 0.077199), 7: (0.041326, 0.050940), 8: (0.022672, 0.023533),
    9: (0.012627, 0.011192), 10: (0.009614, 0.008323), 12: (0.002296, 0.004879), 16: (0.001291, 0.000574)}
AOL_PER_SECOND = {"standard": 938_248, "page_blocked": 983_627}  # mean over 1 to 30 bits per element

# Madison & Zipper, "In oder Aus", table 1: space relative to a Bloom filter of the same rate.
SURVEY_SPACE = {"counting Bloom": "3-4", "blocked Bloom": "1", "d-left counting": "1.5-2", "quotient": "1-1.2",
                "fuzzy-folded": "0.5", "cuckoo": "<=1"}
