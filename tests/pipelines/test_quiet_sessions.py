"""A program whose query Spark refuses prints what it prints, and nothing of Ray, Java or Spark.

tests/pipelines/test_demo.py looks at what is printed when processes are killed.
"""

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.own_spark, pytest.mark.xdist_group("spark")]

PROGRAM = """
import sys
import eagleray
from eagleray.pipelines.session import spark_session

if __name__ == "__main__":
    print("begun", flush=True)
    with eagleray.start(sys.argv[1], layout="colocated") as cluster, spark_session(address=None) as spark:
        cluster.admin.create_topic("numbers")
        spark.sql("SELECT 'x' AS value").write.format("eagleray").option("topic", "numbers").mode("append").save()
        try:
            spark.sql("SELECT no_such_column").collect()
        except Exception as error:
            print("refused", type(error).__name__, flush=True)
        print(spark.read.format("eagleray").option("subscribe", "numbers").load().count(), "record", flush=True)
    print("ended", flush=True)
"""


def test_program_with_spark_prints_only_its_own_lines(java, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "EAGLERAY_HOME": str(tmp_path / "home"), "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    environment.pop("RAY_ADDRESS", None)
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "data")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (ended.stdout, ended.stderr) == ("begun\nrefused AnalysisException\n1 record\nended\n", "")
