# The requests of both samples. $1 is the port.
curl -s "http://127.0.0.1:$1/"
curl -s -A 'curl "quoted" \ agent' -e 'http://example.com/from?a=1' "http://127.0.0.1:$1/login?next=%2Fhome" -d 'name=ann'
curl -s -u 'ann b [22/Nov/2026:10:00:00 +0000] "GET /:secret' "http://127.0.0.1:$1/private"
curl -s --path-as-is -X DELETE "http://127.0.0.1:$1/a//../b"
curl -s -A 'zoë' "http://127.0.0.1:$1/caf%C3%A9"
raw() { exec 3<>"/dev/tcp/127.0.0.1/$1"; printf "$2" >&3; timeout 2 cat <&3 || true; exec 3>&-; }
raw "$1" 'GET /caf\xc3\xa9"x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
raw "$1" '\x16\x03\x01\x02\x01 nonsense\r\n\r\n'
raw "$1" 'GET /old\r\n'
