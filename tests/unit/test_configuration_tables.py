"""docs/configuration.md is what the code would write."""

import importlib.util
import subprocess
import sys
from pathlib import Path

from eagleray.actors.settings import CLUSTER_KEYS
from eagleray.broker.controller.topic_configs import TOPIC_CONFIG_KEYS

SCRIPT = Path(__file__).parents[2] / "scripts" / "configuration_tables.py"


def test_the_document_is_up_to_date():
    result = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_every_setting_has_a_meaning_and_every_meaning_a_setting():
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert set(script.MEANINGS) == CLUSTER_KEYS | TOPIC_CONFIG_KEYS
