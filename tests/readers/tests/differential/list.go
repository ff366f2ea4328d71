// Lists archives as Go's archive/tar reads them: the file os.Args[1] holds each archive behind its length.
//
// A line for each entry (kind, size, SHA-256 of the content, path in hexadecimal), then `end` or the error.
// Nothing is extracted.
package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
)

func list(data []byte, out io.Writer) error {
	var plain io.Reader = bytes.NewReader(data)
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(plain)
		if err != nil {
			return err
		}
		plain = unzipped
	}
	archive := tar.NewReader(plain)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		kind := "other"
		switch header.Typeflag {
		case tar.TypeReg:
			kind = "file"
		case tar.TypeDir:
			kind = "directory"
		case tar.TypeXGlobalHeader:
			// Go shows these as entries; they are none.
			continue
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, archive); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %d %x %x\n", kind, header.Size, sum.Sum(nil), header.Name)
	}
}

func main() {
	batch, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for len(batch) > 0 {
		length := binary.LittleEndian.Uint32(batch)
		if err := list(batch[4:4+length], out); err != nil {
			fmt.Fprintln(out, "error", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Fprintln(out, "end")
		}
		batch = batch[4+length:]
	}
}
