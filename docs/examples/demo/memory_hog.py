hoard = []
while True:
    hoard.append(bytearray(16 << 20))
