"""Drives both doors with Triton's own Python client, the client that people already have.

usage: tritonclient_check.py HTTP_ADDRESS GRPC_ADDRESS
Prints one line per check; exits 1 at the first that does not hold. The server holds the models of the fake gateway.
"""
import sys

import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException


def check(condition, text):
    if not condition:
        print(f"not ok - {text}", flush=True)
        sys.exit(1)
    print(f"ok - {text}", flush=True)


def expect_error(call, *fragments):
    try:
        call()
    except InferenceServerException as error:
        text = str(error)
        for fragment in fragments:
            check(fragment in text, f"error holds {fragment!r}: {text}")
        return
    check(False, f"an error with {fragments}")


def infer_input(module, name, array, datatype, binary=None):
    tensor = module.InferInput(name, list(array.shape), datatype)
    if binary is None:
        tensor.set_data_from_numpy(array)
    else:
        tensor.set_data_from_numpy(array, binary_data=binary)
    return tensor


def check_both(label, module, client):
    check(client.is_server_live(), f"{label}: live")
    check(client.is_server_ready(), f"{label}: ready")
    check(client.is_model_ready("echo"), f"{label}: model ready")
    check(client.is_model_ready("echo", "2"), f"{label}: model version ready")

    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    result = client.infer("echo", [infer_input(module, "x", x, "FP32")], request_id="r-1")
    check(np.array_equal(result.as_numpy("y"), x), f"{label}: FP32 comes back")
    result = client.infer(
        "sum",
        [infer_input(module, "a", x[:, :2].copy(), "FP32"), infer_input(module, "b", x[:, 2:].copy(), "FP32")],
        outputs=[module.InferRequestedOutput("difference")],
    )
    check(np.array_equal(result.as_numpy("difference"), x[:, :2] - x[:, 2:]), f"{label}: two inputs, one output")
    check(result.as_numpy("sum") is None, f"{label}: only the output asked for")

    words = np.array(["grüße", "", "x" * 3000], dtype=object)
    result = client.infer("identity_BYTES", [infer_input(module, "x", words, "BYTES")])
    check([w.decode() for w in result.as_numpy("y")] == list(words), f"{label}: BYTES come back")

    big = np.array([2**63 - 1, -(2**63), 2**53 + 1], dtype=np.int64)
    result = client.infer("identity_INT64", [infer_input(module, "x", big, "INT64")])
    check(np.array_equal(result.as_numpy("y"), big), f"{label}: INT64 extremes come back")
    for datatype, dtype in [
        ("BOOL", np.bool_), ("UINT8", np.uint8), ("INT8", np.int8), ("UINT16", np.uint16), ("INT16", np.int16),
        ("UINT32", np.uint32), ("INT32", np.int32), ("UINT64", np.uint64), ("FP16", np.float16), ("FP64", np.float64),
    ]:
        values = np.array([0, 1, 1], dtype=dtype)
        result = client.infer(f"identity_{datatype}", [infer_input(module, "x", values, datatype)])
        check(np.array_equal(result.as_numpy("y"), values), f"{label}: {datatype} comes back")
    large = np.arange(5 * 1024 * 1024 // 4, dtype=np.float32)
    result = client.infer("identity_FP32", [infer_input(module, "x", large, "FP32")])
    check(np.array_equal(result.as_numpy("y"), large), f"{label}: 5 MiB come back")

    expect_error(lambda: client.infer("nobody", [infer_input(module, "x", x, "FP32")]), "nobody")
    expect_error(lambda: client.infer("echo", [infer_input(module, "x", x[:, :3].copy(), "FP32")]), "'x'", "[-1,4]", "[2,3]")
    expect_error(lambda: client.infer("echo", [infer_input(module, "z", x, "FP32")]), "'z'", "'x'")
    expect_error(
        lambda: client.infer("echo", [infer_input(module, "x", x.astype(np.float64), "FP64")]), "'FP64'", "'FP32'"
    )
    expect_error(
        lambda: client.infer("slow", [infer_input(module, "x", x[0].copy(), "FP32")], timeout=20000), "too late"
    )
    expect_error(lambda: client.get_model_metadata("nobody"), "nobody")
    expect_error(lambda: client.get_system_shared_memory_status(), "not supported")

    client.unload_model("grid")
    expect_error(lambda: client.get_model_metadata("grid"), "grid")
    client.load_model("grid")
    client.get_model_metadata("grid")
    check(True, f"{label}: unload and load")
    expect_error(lambda: client.load_model("nobody"), "nobody")


def main():
    http_address, grpc_address = sys.argv[1:3]

    http = httpclient.InferenceServerClient(http_address, connection_timeout=20, network_timeout=20)
    metadata = http.get_server_metadata()
    check(metadata["name"] == "rubato" and "binary_tensor_data" in metadata["extensions"], "http: server metadata")
    metadata = http.get_model_metadata("sum")
    check([i["name"] for i in metadata["inputs"]] == ["a", "b"], "http: model metadata")
    config = http.get_model_config("echo")
    check(config["max_batch_size"] == 8 and config["input"][0]["dims"] == [4], "http: model config")
    check(config["input"][0]["data_type"] == "TYPE_FP32" and "dynamic_batching" in config, "http: config for perf_analyzer")
    index = http.get_model_repository_index()
    check(any(m["name"] == "echo" and m["state"] == "READY" for m in index), "http: repository index")
    stats = http.get_inference_statistics("echo")
    check(stats["model_stats"][0]["name"] == "echo", "http: statistics")
    check(len(http.get_inference_statistics()["model_stats"]) > 5, "http: statistics of all models")
    check_both("http", httpclient, http)

    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    for binary_in in (True, False):
        for binary_out in (True, False):
            result = http.infer(
                "echo",
                [infer_input(httpclient, "x", x, "FP32", binary_in)],
                outputs=[httpclient.InferRequestedOutput("y", binary_data=binary_out)],
                request_id="q/1",
            )
            check(np.array_equal(result.as_numpy("y"), x), f"http: binary in {binary_in}, out {binary_out}")
            check(result.get_response()["id"] == "q/1", "http: id")
    big = np.array([2**63 - 1, -(2**63), 2**53 + 1], dtype=np.int64)
    result = http.infer(
        "identity_INT64",
        [infer_input(httpclient, "x", big, "INT64", False)],
        outputs=[httpclient.InferRequestedOutput("y", binary_data=False)],
    )
    check(result.get_response()["outputs"][0]["data"] == big.tolist(), "http: INT64 extremes through JSON")
    wide = np.arange(4096, dtype=np.float32)
    for compression in ("gzip", "deflate"):
        result = http.infer(
            "identity_FP32",
            [infer_input(httpclient, "x", wide, "FP32")],
            request_compression_algorithm=compression,
            response_compression_algorithm=compression,
        )
        check(np.array_equal(result.as_numpy("y"), wide), f"http: {compression} both ways")
    result = http.infer("group/echo", [infer_input(httpclient, "x", wide[:3].copy(), "FP32")])
    check(result.get_response()["model_name"] == "group/echo", "http: a name with a slash")
    result = http.infer("späß & co", [infer_input(httpclient, "x", wide[:3].copy(), "FP32")])
    check(result.get_response()["model_name"] == "späß & co", "http: a name that must be encoded")
    result = http.infer("echo", [infer_input(httpclient, "x", x, "FP32")], parameters={"gamma": 3})
    check(result.get_response()["parameters"]["gamma"] == 3, "http: parameters come back")
    http.close()

    grpc = grpcclient.InferenceServerClient(grpc_address)
    metadata = grpc.get_server_metadata()
    check(metadata.name == "rubato" and "statistics" in metadata.extensions, "grpc: server metadata")
    metadata = grpc.get_model_metadata("sum")
    check([list(i.shape) for i in metadata.inputs] == [[-1, 2], [-1, 2]], "grpc: model metadata")
    config = grpc.get_model_config("echo").config
    check(config.max_batch_size == 8 and list(config.input[0].dims) == [4], "grpc: model config")
    check(config.HasField("dynamic_batching") and config.input[0].data_type == 11, "grpc: config for perf_analyzer")
    index = grpc.get_model_repository_index()
    check(any(m.name == "echo" and m.state == "READY" for m in index.models), "grpc: repository index")
    stats = grpc.get_inference_statistics("echo")
    check(stats.model_stats[0].inference_stats.success.count > 0, "grpc: statistics")
    check_both("grpc", grpcclient, grpc)

    result = grpc.infer("echo", [infer_input(grpcclient, "x", x, "FP32")], request_id="g-1", priority=2)
    check(result.get_response().id == "g-1", "grpc: id")
    expect_error(
        lambda: grpc.infer("slow", [infer_input(grpcclient, "x", x[0].copy(), "FP32")], client_timeout=0.05),
        "DEADLINE_EXCEEDED",
    )

    answers = []
    grpc.start_stream(lambda result, error: answers.append((result, error)))
    for i in range(20):
        name = "echo" if i % 5 else "nobody"
        grpc.async_stream_infer(name, [infer_input(grpcclient, "x", x + i, "FP32")], request_id=str(i))
    grpc.stop_stream()
    check(len(answers) == 20, "grpc: a stream answers every request")
    for i, (result, error) in enumerate(answers):
        if i % 5:
            check(error is None and np.array_equal(result.as_numpy("y"), x + i), f"grpc: stream answer {i}")
        else:
            check("nobody" in str(error), f"grpc: stream error {i}")
    grpc.close()


main()
