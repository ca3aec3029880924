"""An error of the client crosses to another process, as those of multiprocessing do."""

import pickle

from answerbus.client.errors import NoAnswerYet


def test_no_answer_yet_is_the_same_after_pickling() -> None:
    error = NoAnswerYet("r-1", "w-1", 2.5)
    copy = pickle.loads(pickle.dumps(error))

    assert isinstance(copy, NoAnswerYet)
    assert (str(copy), copy.request_id, copy.workflow_id) == (str(error), "r-1", "w-1")
