"""Host names in texts: names of replicas, and names of Services."""

from mlgen.kubernetes.names import host_pattern, indexes, names_service

PATTERN = host_pattern(["a-ps", "a-ps-b"])


def test_names_of_replicas_are_found():
    rows = [
        ("a-ps-0", ("a-ps", "0", "", None)),
        ("--ps=a-ps-12:2222", ("a-ps", "12", "", "2222")),
        ("tcp://a-ps-0:22/x", ("a-ps", "0", "", "22")),
        ("http://a-ps-0/x", ("a-ps", "0", "", None)),
        ('["a-ps-b-1"]', ("a-ps-b", "1", "", None)),
        ("a-ps-0.n.svc.cluster.local.:1", ("a-ps", "0", ".n.svc.cluster.local", "1")),
        ("see a-ps-0. Or not", ("a-ps", "0", "", None)),
        ("a-ps-[0-3]:1", ("a-ps", "[0-3]", "", "1")),
        ("a-ps-$(INDEX):1", ("a-ps", "$(INDEX)", "", "1")),
        ("a-ps-${i}.n.svc", ("a-ps", "${i}", ".n.svc", None)),
        ("a-ps-$i:1", ("a-ps", "$i", "", "1")),
        ("f'a-ps-{i}'", ("a-ps", "{i}", "", None)),
        ("'a-ps-%d' % i", ("a-ps", "%d", "", None)),
        ("'a-ps-' + i", ("a-ps", "", "", None)),
        ("a-ps-", ("a-ps", "", "", None)),
    ]

    for text, expected in rows:
        match = PATTERN.search(text)

        assert match.group("name", "index", "domain", "port") == expected


def test_parts_of_paths_and_of_longer_names_are_not():
    rows = [
        *("a-ps", "a-ps-x", "a-ps-01", "a-ps-0-b", "a-ps-0_b", "/data/a-ps-0", "a-ps-0/x"),
        *("b-a-ps-0", "x.a-ps-0", "$(P)a-ps-0", "a-ps-0.Txt", "aa-ps-0", "${P}a-ps-0"),
    ]

    for text in rows:
        assert PATTERN.search(text) is None


def test_a_service_has_a_namespace_where_a_pod_has_a_subdomain():
    rows = [
        ("", None, True),
        (".n", None, False),
        (".n:80", None, True),
        (".a:80", None, False),
        (".n", "n", True),
        (".n", "m", False),
        (".n.svc", "m", True),
        (".n.svc.cluster.local", None, True),
        (".a", None, False),
        (".a.n.svc", None, False),
        (".a.svc", None, True),
        (".example.com", None, False),
    ]

    assert [expected for _, _, expected in rows] == [
        names_service(PATTERN.search(f"a-ps-0{domain}"), "a", namespace)
        for domain, namespace, _ in rows
    ]


def test_a_placeholder_stands_for_all_replicas():
    rows = [("3", [3]), ("[1-2]", [1, 2]), ("$(I)", [0, 1, 2]), ("", [0, 1, 2])]

    assert [expected for _, expected in rows] == [list(indexes(text, 3)) for text, _ in rows]
