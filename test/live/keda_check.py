"""Asks the server as KEDA does, with a client that protoc generates for Python from the proto file.

usage: keda_check.py PROTO_FILE GRPC_ADDRESS
Prints one line per check; exits 1 at the first that does not hold. The server is the fake gateway with the groups of
test/live/keda-python.test.ts.
"""
import importlib
import os
import sys
import tempfile

import grpc
from grpc_tools import protoc


def check(condition, text):
    if not condition:
        print(f"not ok - {text}", flush=True)
        sys.exit(1)
    print(f"ok - {text}", flush=True)


def main(proto, address):
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["protoc", f"-I{os.path.dirname(proto)}", f"--python_out={folder}", f"--grpc_python_out={folder}", proto]
        check(protoc.main(arguments) == 0, "protoc takes the proto file")
        sys.path.insert(0, folder)
        messages = importlib.import_module("externalscaler_pb2")
        services = importlib.import_module("externalscaler_pb2_grpc")
        with grpc.insecure_channel(address) as channel:
            ask(messages, services.ExternalScalerStub(channel))


def ask(messages, scaler):
    def ref(**metadata):
        return messages.ScaledObjectRef(name="rubato", namespace="default", scalerMetadata=metadata)

    check(scaler.IsActive(ref(group="gpu")).result is True, "IsActive of a busy group")
    check(scaler.IsActive(ref(group="cpu")).result is False, "IsActive of an idle group")
    spec = scaler.GetMetricSpec(ref(group="gpu", acceleratorsPerReplica="2.5")).metricSpecs
    check(len(spec) == 1 and spec[0].targetSizeFloat == 2.5, "GetMetricSpec: the target is acceleratorsPerReplica")
    name = spec[0].metricName
    check(scaler.GetMetricSpec(ref(group="gpu")).metricSpecs[0].targetSize == 4, "GetMetricSpec: the group's size")
    for group, advice in (("gpu", 7), ("cpu", 1)):
        request = messages.GetMetricsRequest(scaledObjectRef=ref(group=group), metricName=name)
        values = scaler.GetMetrics(request).metricValues
        check([(v.metricName, v.metricValue, v.metricValueFloat) for v in values] == [(name, advice, advice)],
              f"GetMetrics of {group} is {advice}")
    stream = scaler.StreamIsActive(ref(group="gpu"))
    check(next(iter(stream)).result is True, "StreamIsActive tells at once")
    stream.cancel()
    try:
        scaler.IsActive(ref(group="tpu"))
        check(False, "an unknown group is refused")
    except grpc.RpcError as error:
        check(error.code() == grpc.StatusCode.INVALID_ARGUMENT, "an unknown group is INVALID_ARGUMENT")
        check("must be one of gpu, cpu; was 'tpu'" in error.details(), error.details())


main(sys.argv[1], sys.argv[2])
