"""What is answered to an OTLP export: that all was taken, or how many spans were not and by which rules."""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from branches.ports import SourceRead

MAX_RULES: Final = 8


@dataclass(frozen=True, slots=True)
class PartialSuccess:
    """How many spans were refused, and the fields and rules: never a value of theirs."""

    rejected_spans: int
    message: str

    def protobuf(self) -> bytes:
        """Return the answer to a protobuf request; empty where all was taken."""
        if not self.rejected_spans:
            return b""
        told = ExportTracePartialSuccess(rejected_spans=self.rejected_spans, error_message=self.message)
        written: bytes = ExportTraceServiceResponse(partial_success=told).SerializeToString()
        return written

    def json(self) -> bytes:
        """Return the answer to a JSON request; an empty object where all was taken."""
        if not self.rejected_spans:
            return b"{}"
        told = {"rejectedSpans": str(self.rejected_spans), "errorMessage": self.message}
        return json.dumps({"partialSuccess": told}).encode()


def partial(read: SourceRead) -> PartialSuccess:
    """Return the answer to the requests that were read.

    A request refused as a whole is no partial success: it has one refusal, at its label alone.
    """
    counted = Counter(f"{each.field}: {each.rule}" for each in read.refused)
    told = [
        f"{rule} ({count})" for rule, count in sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    ]
    more = ["and others"] if len(told) > MAX_RULES else []
    return PartialSuccess(len(read.refused), ", ".join(told[:MAX_RULES] + more))
