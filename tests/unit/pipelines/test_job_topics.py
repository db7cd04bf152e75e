"""Topics of a job are looked for before Spark is started."""

import pytest

from eagleray.pipelines.jobs import Sink, Source, check_topics
from eagleray.pipelines.options import OptionError

KNOWN = {"orders": 4, "charges": 2}


@pytest.mark.parametrize(
    ("source", "sink", "said"),
    [
        (Source(topics=("order",)), Sink(topic="charges"), "names order, which the cluster does not have"),
        (Source(topics=("orders",)), Sink(topic="charge"), "Did you mean charges by charge?"),
    ],
)
def test_topic_that_the_cluster_does_not_have_is_named(source, sink, said):
    with pytest.raises(OptionError, match="Create it first") as raised:
        check_topics(source, sink, KNOWN)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        (Source(topics=("orders",)), Sink(topic="charges")),
        (Source(topics=("orders",)), Sink()),
        (Source(pattern="later-.*"), Sink(topic="charges")),
    ],
)
def test_topics_that_may_be_right_pass(source, sink):
    check_topics(source, sink, KNOWN)
