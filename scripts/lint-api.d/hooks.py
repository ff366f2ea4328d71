"""What schemathesis does not know of media types: an upload is bytes, and so is an artifact."""

import schemathesis
from schemathesis.transport.serialization import Binary


@schemathesis.serializer("application/gzip")
def gzip(ctx, value):
    if isinstance(value, Binary):
        value = value.data
    return {"data": value if isinstance(value, bytes) else str(value).encode()}


@schemathesis.deserializer("application/octet-stream")
def octets(ctx, response):
    return response.content.decode("latin-1")
