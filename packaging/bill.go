package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// bill is the bill of materials of binaries: the Go release and every module in them, as the
// binaries themselves tell. Modules of this repository have its version.
func bill(name, version string, date time.Time, binaries []item) ([]byte, error) {
	const ours = "github.com/holdfast-go/holdfast"
	parts := map[string]cyclonedx.Component{}
	add := func(path, version, sum string) {
		c := cyclonedx.Component{
			BOMRef: "pkg:golang/" + path + "@" + version, Type: cyclonedx.ComponentTypeLibrary,
			Name: path, Version: version, PackageURL: "pkg:golang/" + path + "@" + version,
		}
		if sum != "" {
			c.Properties = &[]cyclonedx.Property{{Name: "go.sum", Value: sum}}
		}
		parts[c.BOMRef] = c
	}
	for _, b := range binaries {
		info, err := buildinfo.Read(bytes.NewReader(b.data))
		if err != nil {
			return nil, err
		}
		add("std", strings.TrimPrefix(info.GoVersion, "go"), "")
		for _, m := range slices.Concat([]*debug.Module{&info.Main}, info.Deps) {
			switch {
			case m.Path == ours || strings.HasPrefix(m.Path, ours+"/"):
				add(m.Path, "v"+version, "")
			case m.Replace != nil:
				add(m.Replace.Path, m.Replace.Version, m.Replace.Sum)
			default:
				add(m.Path, m.Version, m.Sum)
			}
		}
	}
	list := make([]cyclonedx.Component, 0, len(parts))
	for _, c := range parts {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })

	b := cyclonedx.NewBOM()
	b.Metadata = &cyclonedx.Metadata{
		Timestamp: date.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: name, Type: cyclonedx.ComponentTypeApplication, Name: "holdfast", Version: version,
			Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		},
	}
	b.Components = &list
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(b); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
