import sys, subprocess, time
sys.path.insert(0,'/work/main/tests')
from conftest import *
from internet import CLIENT, answers, internet, net_server, proxies
GUARD_MODE="off"
def test_x(internet, net_server):
    l = internet.raw("a.example.com", lambda plain: plain.sendall(b"x" * 5000) or plain.recv(1), port=9000)
    session = net_server.session(policy={"network_allow": ["tcp://a.example.com:9000"]})
    code = CLIENT + "s, _, _ = connect('a.example.com:9000')\ns.recv(5000, socket.MSG_WAITALL)\nimport time; time.sleep(1)\n"
    run = net_server.post(f"/v1/sessions/{session}/runs", {"code": code, "detach": True}).expect(202).json["id"]
    path = f"/v1/sessions/{session}/network"
    assert wait_until(lambda: net_server.get(path).expect(200).json["used"]["bytes_down"] == 5000, 20), net_server.get(path).json
    p = proxies(net_server.pid)[0]
    st = subprocess.Popen(["strace","-f","-tt","-p",str(p)],stderr=open("/tmp/st.txt","w"))
    net_server.wait_run(run)
    time.sleep(1)
    print(net_server.get(path).json["open"], l.open, proxies(net_server.pid))
    subprocess.run("for p in $(pgrep -P %d) $(ps -eo pid= ); do n=$(readlink /proc/$p/ns/net); echo $n; done | sort | uniq -c; for p in %s; do echo == $p; nsenter --net=/proc/$p/ns/net ss -tnpa; done; ps -eo pid,ppid,args --forest | cut -c1-150 | grep -A40 build-tests" % (net_server.pid, " ".join(map(str, net_server.processes()))), shell=True)
    st.terminate()
    assert 0
