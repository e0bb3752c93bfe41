package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"time"
)

// tarball writes an archive in which everything has one date, and belongs to root.
func tarball(w io.Writer, dir string, items []item, date time.Time) error {
	packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(packed)
	for _, i := range items {
		if err := archive.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: dir + "/" + i.name, Size: int64(len(i.data)), Mode: int64(i.mode),
			ModTime: date, Uname: "root", Gname: "root", Format: tar.FormatPAX,
		}); err != nil {
			return err
		}
		if _, err := archive.Write(i.data); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return packed.Close()
}

// zipped is the same for Windows.
func zipped(w io.Writer, dir string, items []item, date time.Time) error {
	archive := zip.NewWriter(w)
	for _, i := range items {
		header := &zip.FileHeader{Name: dir + "/" + i.name, Method: zip.Deflate, Modified: date}
		header.SetMode(i.mode)
		file, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := file.Write(i.data); err != nil {
			return err
		}
	}
	return archive.Close()
}
