package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// bill is the bill of materials of a platform's programs: the programs, the Go release, and every module
// in them.
func bill(name, version string, date time.Time, binaries []item, parts []part) ([]byte, error) {
	list := make([]cyclonedx.Component, 0, len(binaries)+len(parts))
	for _, b := range binaries {
		sum := sha256.Sum256(b.data)
		list = append(list, cyclonedx.Component{
			BOMRef: name + "/" + b.name, Type: cyclonedx.ComponentTypeApplication, Name: b.name, Version: version,
			Hashes: hashes(sum[:]), Licenses: licences(ourLicence),
		})
	}
	for _, p := range parts {
		c, err := component(p)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	b := cyclonedx.NewBOM()
	b.Metadata = &cyclonedx.Metadata{
		Timestamp: date.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: name, Type: cyclonedx.ComponentTypeApplication, Name: "holdfast", Version: version,
			Licenses: licences(ourLicence),
		},
	}
	b.Components = &list
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(b); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// component is a part in the bill. The hash of a module is that of go.sum, in hexadecimal digits as the
// format wants it: SHA-256 over the names and the SHA-256 of its files. The hash of the module's zip file
// would be of no use here: proxies compress the same files differently, and so the same commit would no
// longer give the same bill.
func component(p part) (cyclonedx.Component, error) {
	ref := "pkg:golang/" + p.String()
	c := cyclonedx.Component{
		BOMRef: ref, Type: cyclonedx.ComponentTypeLibrary, Name: p.path, Version: p.version, PackageURL: ref,
		Licenses: licences(p.licence),
	}
	if p.sum != "" {
		coded, found := strings.CutPrefix(p.sum, "h1:")
		sum, err := base64.StdEncoding.DecodeString(coded)
		if !found || err != nil || len(sum) != sha256.Size {
			return c, fmt.Errorf("%s: %q is not a sum of go.sum", p, p.sum)
		}
		c.Hashes = hashes(sum)
		c.Properties = &[]cyclonedx.Property{{Name: "go.sum", Value: p.sum}}
	}
	if p.commit != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "vcs.revision", Value: p.commit}}
	}
	return c, nil
}

func hashes(sum []byte) *[]cyclonedx.Hash {
	return &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
}

// licences is an SPDX expression in the bill: one identifier has a field of its own.
func licences(expression string) *cyclonedx.Licenses {
	if strings.Contains(expression, " ") {
		return &cyclonedx.Licenses{{Expression: expression}}
	}
	return &cyclonedx.Licenses{{License: &cyclonedx.License{ID: expression}}}
}
