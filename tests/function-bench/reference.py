"""What the functions of FunctionBench have to answer, by Python's own library: `reference.py NAME`, the request on standard input.
Files are written to the working directory."""

import json
import math
import os
import re
import subprocess
import sys
from collections import Counter

MASK = (1 << 64) - 1


def numbers(state=1):
    """The generator of the functions: 64 bits each time."""
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) & MASK
        yield state


def float_(query):
    first = range(query["n"])
    sums = {"sines": 0.0, "cosines": 0.0, "roots": 0.0}
    for number in first:
        sums["sines"] += math.sin(number)
        sums["cosines"] += math.cos(number)
        sums["roots"] += math.sqrt(number)
    return sums


def matmul(query):
    n, source = query["n"], numbers()
    left, right = ([[next(source) >> 60 for _ in range(n)] for _ in range(n)] for _ in range(2))
    columns = list(zip(*right))
    product = [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in left]
    return {"trace": float(sum(product[at][at] for at in range(n))), "sum": float(sum(map(sum, product)))}


def linpack(query):
    n, source = query["n"], numbers()
    rows = []
    for _ in range(n):
        row = [(next(source) >> 11) / (1 << 53) - 0.5 for _ in range(n)]
        rows.append(row + [sum(row)])
    log_determinant = 0.0
    for at in range(n):
        pivot = max(range(at, n), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        log_determinant += math.log(abs(rows[at][at]))
        for below in range(at + 1, n):
            factor = rows[below][at] / rows[at][at]
            rows[below] = [low - factor * high for low, high in zip(rows[below], rows[at])]
    found = [0.0] * n
    for at in reversed(range(n)):
        known = sum(rows[at][column] * found[column] for column in range(at + 1, n))
        found[at] = (rows[at][n] - known) / rows[at][at]
    error = max((abs(one - 1.0) for one in found), default=0.0)
    return {"error": round(error, 9), "log_determinant": log_determinant}


def chameleon(query):
    cell = '<td><span class="column-{column}">{row} &amp; {column}</span></td>'
    rows = []
    for row in range(query["rows"]):
        cells = [cell.format(row=row, column=column) for column in range(1, query["columns"] + 1)]
        rows.append("<tr>\n" + "\n".join(cells) + "\n</tr>")
    return "<table>\n" + "\n".join(rows) + "\n</table>\n"


class Aes:
    """AES-128 as FIPS 197 writes it down, byte by byte."""

    def __init__(self, key):
        self.box = [self.substituted(byte) for byte in range(256)]
        words, constant = [list(key[at : at + 4]) for at in range(0, 16, 4)], 1
        for at in range(4, 44):
            word = words[at - 1]
            if at % 4 == 0:
                word = [self.box[byte] for byte in word[1:] + word[:1]]
                word[0] ^= constant
                constant = self.times(constant, 2)
            words.append([a ^ b for a, b in zip(words[at - 4], word)])
        self.keys = [sum(words[at : at + 4], []) for at in range(0, 44, 4)]

    @staticmethod
    def times(a, b):
        product = 0
        while b:
            if b & 1:
                product ^= a
            a = (a << 1) ^ (0x11B if a & 0x80 else 0)
            b >>= 1
        return product

    def substituted(self, byte):
        # The inverse is the 254th power.
        inverse = 1
        for _ in range(254):
            inverse = self.times(inverse, byte)
        mapped = 0x63
        for turn in range(5):
            mapped ^= ((inverse << turn) | (inverse >> (8 - turn))) & 0xFF
        return mapped

    def encrypted(self, block):
        state = [a ^ b for a, b in zip(block, self.keys[0])]
        for number, key in enumerate(self.keys[1:], 1):
            state = [self.box[byte] for byte in state]
            state = [state[(4 * (column + row) + row) % 16] for column in range(4) for row in range(4)]
            if number < 10:
                mixed = []
                for column in (state[at : at + 4] for at in range(0, 16, 4)):
                    for row in range(4):
                        a, b, c, d = column[row:] + column[:row]
                        mixed.append(self.times(a, 2) ^ self.times(b, 3) ^ c ^ d)
                state = mixed
            state = [a ^ b for a, b in zip(state, key)]
        return bytes(state)


def pyaes(query):
    example = Aes(bytes(range(16))).encrypted(bytes(range(0, 256, 17)))
    assert example.hex() == "69c4e0d86a7b0430d8cdb78070b4c55a", "FIPS 197, appendix C.1"
    aes = Aes(b"\xa1\xf6%\x8c\x87}_\xcd\x89dHE8\xbf\xc9,")
    text = bytes(ord("a") + at % 26 for at in range(query["bytes"]))
    counter = 1
    for _ in range(query["rounds"]):
        blocks = -(-len(text) // 16)
        stream = b"".join(aes.encrypted((counter + at).to_bytes(16, "big")) for at in range(blocks))
        text = bytes(a ^ b for a, b in zip(text, stream))
        counter += blocks
    return {"hex": text.hex(), "is_same": True}


def json_(document):
    return json.dumps(document, indent=4, sort_keys=True, ensure_ascii=False)


def mapreduce(text):
    counts = Counter(word.lower() for word in re.findall("[A-Za-z]+", text))
    frequent = sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:20]
    return {"words": sum(counts.values()), "different": len(counts), "most_frequent": frequent}


def feature_generation(text):
    documents = [Counter(re.findall("[a-z]{2,}", line.lower())) for line in text.splitlines()]
    count, with_word = len(documents), Counter(word for document in documents for word in document)
    vectors = []
    for document in documents:
        weights = {
            word: times * (math.log((1 + count) / (1 + with_word[word])) + 1) for word, times in document.items()
        }
        length = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
        unit = [weight / length for weight in weights.values()]
        vectors.append({"words": len(unit), "sum": sum(unit), "largest": max(unit, default=0.0)})
    return {"documents": count, "words": len(with_word), "vectors": vectors}


def probability(weights, bias, features):
    return 1 / (1 + math.exp(-(sum(weight * feature for weight, feature in zip(weights, features)) + bias)))


def logistic_train(training):
    samples = [(sample["features"], sample["is_so"]) for sample in training["samples"]]
    weights, bias, step = [0.0] * len(samples[0][0]), 0.0, training["rate"] / len(samples)
    for _ in range(training["passes"]):
        errors = [probability(weights, bias, features) - is_so for features, is_so in samples]
        slopes = [
            sum(error * features[at] for error, (features, _) in zip(errors, samples)) for at in range(len(weights))
        ]
        weights = [weight - step * slope for weight, slope in zip(weights, slopes)]
        bias -= step * sum(errors)
    right = sum((probability(weights, bias, features) > 0.5) == is_so for features, is_so in samples)
    return {"weights": weights, "bias": bias, "right": right / len(samples)}


def logistic_serve(query):
    return {"probabilities": [probability(query["weights"], query["bias"], one) for one in query["features"]]}


def contents(offset, size):
    return bytes((at ^ (at >> 8) ^ (at >> 16)) & 0xFF for at in range(offset, offset + size))


def dd(query):
    block = ["dd", "if=/dev/zero", "of=" + query["of"], f"count={query['count']}", f"bs={query['bs']}", "status=none"]
    subprocess.run(block, check=True)
    return {"bytes": os.path.getsize(query["of"])}


def order(query):
    """Numbers of blocks, each once."""
    count = query["blocks"]
    if not query["is_random"]:
        return range(count)
    power, source = 1 << (count - 1).bit_length(), numbers(0)
    # A number modulo a power of two follows from the one before modulo the same.
    return [number for number in (next(source) % power for _ in range(power)) if number < count]


def disk_io(query):
    size, total = query["block"], 0
    with open(query["path"], "wb" if query["writes"] else "rb") as file:
        for offset in (number * size for number in order(query)):
            file.seek(offset)
            block = contents(offset, size) if query["writes"] else file.read(size)
            if query["writes"]:
                file.write(block)
            total = (total * 31 + offset + sum(block)) & MASK
    return {"bytes": size * query["blocks"], "sum": total}


def block_io(query):
    """Of blocks that are kept one by one: what is read is what was written."""
    size, total = query["block"], 0
    for offset in (number * size for number in order(query)):
        block = bytes(size) if query.get("zeros") else contents(offset, size)
        total = (total * 31 + offset + sum(block)) & MASK
    return {"bytes": size * query["blocks"], "sum": total}


WORKLOADS = {
    "dd": dd,
    "disk-io": disk_io,
    "object-io": block_io,
    "scratch-io": block_io,
    "float": float_,
    "matmul": matmul,
    "linpack": linpack,
    "chameleon": chameleon,
    "pyaes": pyaes,
    "json": json_,
    "mapreduce": mapreduce,
    "feature-generation": feature_generation,
    "logistic-train": logistic_train,
    "logistic-serve": logistic_serve,
}
TEXTS = ("mapreduce", "feature-generation")

if __name__ == "__main__":
    name = sys.argv[1]
    request = sys.stdin.read()
    answer = WORKLOADS[name](request if name in TEXTS else json.loads(request))
    sys.stdout.write(answer if isinstance(answer, str) else json.dumps(answer))
