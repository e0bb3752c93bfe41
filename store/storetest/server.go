package storetest

import (
	"context"
	"strings"
)

var serverTests = []test{
	{"info", testInfo},
}

func testInfo(s *suite) {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	info, err := s.Store.Server(ctx)
	if err != nil {
		s.Fatal(err)
	}
	if info.Product == "" || info.Role == "" || info.Mode == "" || info.Address == "" {
		s.Errorf("the server says too little of itself: %+v", info)
	}
	if info.Product != strings.ToLower(info.Product) {
		s.Errorf("the product is %q, want it in small letters", info.Product)
	}
	if strings.Contains(info.Address, "@") {
		s.Errorf("the address may show credentials: %q", info.Address)
	}
}
